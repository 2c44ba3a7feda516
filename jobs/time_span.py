"""A length of time as a person writes it: `90`, `30m`, `2h`, `1d`."""

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class TimeSpan(click.ParamType[float]):
    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        text = str(value)
        unit = _UNITS.get(text[-1:])
        try:
            seconds = float(text if unit is None else text[:-1]) * (unit or 1)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            self.fail(f"{text!r} is no time; write seconds, or 30m, 2h, 1d.", param, ctx)
        return seconds
