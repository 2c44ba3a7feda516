"""What the command's exit status says; scripts may rely on these."""

OK = 0  #: done, also where single rows are errors: the summary and `results --status error` show them
FAILED = 1  #: the job cannot go on as asked for: bad input, a model that cannot be used
USAGE = 2  #: a flag, a field or a value that makes no sense
NOT_FOUND = 3  #: no such job
REFUSED = 4  #: done as asked, this would lose or mix up results
ALL_ROWS_FAILED = 5  #: the job ended, and not one of its rows was answered
GIVEN_UP = 69  #: a GPU worker that cannot be kept running, which `status` tells of (sysexits' EX_UNAVAILABLE)
TRY_AGAIN = 75  #: nothing is wrong with the job: a locked database, a full disk; try again (sysexits' EX_TEMPFAIL)
STOPPED = 130  #: Ctrl-C, or cancelled meanwhile; what was recorded stays, and `pipeline resume` goes on
