"""A schedule on a real database, by a clock that a test moves, and what a fleet would do with its runs."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from pipeline.store.database import Database
from pipeline.store.ledger import Ledger
from pipeline.store.records import JobRecord
from pipeline.store.schedule_records import Overlap, RunClaim, RunRecord, RunState, ScheduleRecord
from pipeline.store.schedule_runs import ScheduleRuns
from pipeline.store.schedules import Schedules
from pipeline.timetable import Timetable
from workers.submissions import make_ticker

KINDS = ["sqlite", "postgresql"]
LEASE_S, HOUR, DAY = 60.0, 3600.0, 86_400.0
SPEC = '{"notify": {"command": "true"}}'


@dataclass
class Nights:
    """One schedule, "night", whose jobs are named by the date."""

    database: Database
    now: float = 0.0

    def __post_init__(self) -> None:
        self.ledger, self.schedules = Ledger(self.database, self.clock), Schedules(self.database, self.clock)
        self.runs, self.ticker = ScheduleRuns(self.database, self.clock), make_ticker(self.database, self.clock)

    def clock(self) -> float:
        return self.now

    def at(self, text: str, zone: str = "UTC") -> None:
        self.now = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()

    def add(self, cron: str = "0 2 * * *", zone: str = "UTC", **fields: object) -> ScheduleRecord:
        usual = ScheduleRecord(
            "s", "night", cron, zone, SPEC, "reviews-{date}", "job.yaml", 6 * HOUR, Overlap.SKIP, False, self.now, 0.0
        )
        schedule = replace(usual, next_at=next(Timetable(cron, zone).after(self.now)), **fields)
        self.schedules.add(schedule)
        return schedule

    def tick(self) -> list[RunClaim]:
        return self.ticker.tick(LEASE_S)

    def submit(self, claim: RunClaim) -> JobRecord:
        """To the fleet, which is at it from then on."""
        job = self.ledger.create_job(self.run(claim).job_name, SPEC, "", "", "", fleet=True, run=claim)
        self.ledger.finish_cutting(job.id, 0)
        self.runs.hand_over(claim)
        return job

    def run(self, claim: RunClaim) -> RunRecord:
        run, _ = self.schedules.of(run_id=claim.run_id)
        assert run is not None
        return run

    def states(self) -> list[tuple[str, RunState]]:
        """By day of the month, UTC, the earliest first."""
        found = self.schedules.runs(self.schedules.find("night"))
        return [(f"{datetime.fromtimestamp(run.scheduled_for, UTC):%d %H:%M}", run.state) for run in reversed(found)]

    def notes(self) -> list[str | None]:
        return [run.note for run in reversed(self.schedules.runs(self.schedules.find("night")))]
