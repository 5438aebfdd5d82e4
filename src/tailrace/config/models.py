"""A configuration in Python: frozen, every path in full."""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from tailrace.calendar import Calendar
from tailrace.errors import ConfigError
from tailrace.sources.database import check

_SQLITE = "sqlite:///"
_NO_DATE = datetime(1900, 1, 1)  # what strptime reads where a pattern has no part of a date


def _text(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise ConfigError("must not be empty, nor hold a zero character.")
    return value


def _in_full(value: object, info: ValidationInfo) -> object:
    """A path relative to the file that it is written in, whose folder is the context (or to the
    current one).
    """
    return (
        Path(os.path.abspath(os.path.join(info.context or os.curdir, _text(value))))
        if isinstance(value, str)
        else value
    )


def _url(value: str, info: ValidationInfo) -> str:
    check(value)
    file = value.removeprefix(_SQLITE)
    return value if file == value else f"{_SQLITE}{_in_full(file, info)}"


def _files(value: str) -> str:
    if not value.lower().endswith((".csv", ".parquet")):
        raise ConfigError('must end in .csv or .parquet, for example "*.csv".')
    parts = value.split("/")
    if (
        PurePath(value).is_absolute()
        or ".." in parts
        or any("**" in part and part != "**" for part in parts)
    ):
        raise ConfigError(
            'must be a pattern inside the folder of path, for example "*.csv" or "**/*.csv".'
        )
    return value


def dated(value: str) -> str:
    """The pattern of a file's name that says the period, if it does."""
    try:
        read = datetime.strptime(datetime(2026, 2, 3, 4, 5, 6).strftime(value), value)
    except (ValueError, re.error):  # a directive that is unknown, or there twice
        read = _NO_DATE
    if read == _NO_DATE:
        raise ConfigError('must say where the date stands, for example "cases-%Y-%m-%d.csv".')
    return value


def _form(value: str) -> str:
    if "%" not in value:
        raise ConfigError('must say how a time is written, for example "%d.%m.%Y".')
    return value


Text = Annotated[str, AfterValidator(_text)]
Place = Annotated[Path, BeforeValidator(_in_full)]
Url = Annotated[
    str,
    AfterValidator(_text),
    AfterValidator(_url),
    Field(examples=['"sqlite:///ward.db"'], repr=False),
]
Files = Annotated[str, AfterValidator(_text), AfterValidator(_files)]
Dated = Annotated[Files, AfterValidator(dated)]
Form = Annotated[str, AfterValidator(_form)]


class Settings(BaseModel):
    """Plain values of one table."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class StreamSettings(Settings):
    """`[stream]`: where the stream is kept, and whose budget it is charged to."""

    path: Place = Field(examples=['"ward.tail"'])
    population: Text = Field(examples=['"patients of the ward"'])
    ledger: Place | None = None


class FolderSource(Settings):
    """Files of a folder: one for each step, or cut by the column `time`, or one for each period, by
    its `name`.
    """

    kind: Literal["Folder"] = "Folder"
    path: Place = Field(examples=['"incoming"'])
    files: Files | None = None
    name: Dated | None = None
    deletes: Files | None = None
    time: Text | None = None
    format: Form | None = None
    op: Text | None = None


class LinesSource(Settings):
    """JSON lines on standard input."""

    kind: Literal["Lines"] = "Lines"
    time: Text | None = None
    format: Form | None = None
    op: Text | None = None


class SqlSource(Settings):
    """A table of a database."""

    kind: Literal["SqlTable"] = "SqlTable"
    url: Url
    table: Text = Field(examples=['"cases"'])
    time: Text = Field(examples=['"day"'])
    arrived: Text | None = None
    format: Form | None = None
    op: Text | None = None


class CsvSink(Settings):
    """Every release as a CSV file of a folder."""

    kind: Literal["CsvFolder"] = "CsvFolder"
    path: Place = Field(examples=['"public"'])
    formulas: bool = False


class ParquetSink(Settings):
    """Every release as a Parquet file of a folder."""

    kind: Literal["ParquetFolder"] = "ParquetFolder"
    path: Place = Field(examples=['"public"'])


class SqlSink(Settings):
    """Every release as rows of a database's table."""

    kind: Literal["SqlTable"] = "SqlTable"
    url: Url
    table: Text = Field(examples=['"releases"'])


Source = FolderSource | LinesSource | SqlSource
Sink = CsvSink | ParquetSink | SqlSink


class Config(BaseModel):
    """Everything that a `stream.toml` says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path
    path: Path
    population: str
    ledger: Path | None
    mechanism: Any
    calendar: Calendar | None
    source: Annotated[Source, Field(discriminator="kind")]
    sinks: tuple[Annotated[Sink, Field(discriminator="kind")], ...]
