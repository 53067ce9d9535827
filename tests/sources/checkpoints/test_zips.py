"""Archives written byte by byte after APPNOTE.TXT of PKWARE, and archives that lie."""

from __future__ import annotations

import bz2
import io
import warnings
import zipfile
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from test_torch_files import state, tensor

import sizer

PICKLE, STORAGE = state(w=tensor("0", (2, 3), (3, 1), 6)), bytes(24)
FILES = {"a/data.pkl": PICKLE, "a/data/0": STORAGE}
FAR = 0xFFFFFFFF


def extra(wide: str, size: int, header: int) -> bytes:
    """Section 4.5.3: the values of the fields that are full, in this order; another tool's field before."""
    values = {"size": size, "packed": size, "header": header}
    field = b"".join(pack("<Q", values[word]) for word in ("size", "packed", "header") if word in wide)
    return pack("<HH4s", 0x4246, 4, b"pads") + (pack("<HH", 1, len(field)) + field if field else b"")


def archive(files: dict[str, bytes], wide: str = "", directory: bool = False, **wrong: Any) -> bytes:
    """Files as they are; `wide` are the fields of 64 bits; `directory`: that of 64 bits is there, too."""
    out, entries = b"", b""
    for name, data in files.items():
        header, size = len(out), wrong.get("sizes", {}).get(name, len(data))
        full, packed = (FAR if word in wide else size for word in ("size", "packed"))
        place = FAR if "header" in wide else header + wrong.get("shift", 0)
        more = extra(wide, size, header)
        sizes = pack("<HHHHHIII", 45, 0, wrong.get("method", 0), 0, 0, 0, packed, full)
        out += b"PK\3\4" + sizes + pack("<HH", len(name), 0) + name.encode() + data
        entries += (
            b"PK\1\2" + pack("<H", 45) + sizes + pack("<HHHHHII", len(name), len(more), 0, 0, 0, 0, place)
        )
        entries += name.encode() + more
    start, count = len(out), wrong.get("count", len(files))
    out += wrong.get("entries", entries)
    if directory:
        at = len(out)
        record = pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(entries), start)
        out += wrong.get("record", b"PK\6\6") + record
        out += wrong.get("locator", b"PK\6\7") + pack("<IQI", 0, wrong.get("at", at), 1)
        return out + b"PK\5\6" + pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, FAR, FAR, 0)
    return out + b"PK\5\6" + pack("<HHHHIIH", 0, 0, count, count, len(entries), start, 0)


def test_what_is_written_here_is_what_the_standard_library_reads() -> None:
    for wide in ("", "size packed", "header", "size packed header"):
        for directory in (False, True):
            found = zipfile.ZipFile(io.BytesIO(archive({"a/data.pkl": PICKLE}, wide, directory)))
            assert [(i.filename, i.file_size, i.header_offset) for i in found.infolist()] == [
                ("a/data.pkl", len(PICKLE), 0)
            ]


@pytest.mark.parametrize("directory", [False, True], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize("wide", ["", "header", "size", "packed", "size packed", "size packed header"])
def test_fields_of_64_bits(tmp_path: Path, wide: str, directory: bool) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(archive(FILES, wide, directory))

    found = sizer.load_checkpoint(path)

    assert ([(t.name, t.shape, t.bytes) for t in found.stored], found.problems) == ([("w", (2, 3), 24)], [])


LIES: dict[str, tuple[bytes, str]] = {
    "no locator": (archive(FILES, directory=True, locator=b"PK\0\0"), "its 64-bit directory is missing"),
    "no record": (archive(FILES, directory=True, record=b"PK\0\0"), "its 64-bit directory is missing"),
    "a record beyond the end": (archive(FILES, directory=True, at=2**40), "64-bit directory is missing"),
    "full fields without values": (
        archive(FILES).replace(pack("<II", 24, 24), pack("<II", 24, FAR)),
        "the archive 4,294,967,295",
    ),
    "many files": (archive(FILES, directory=True, count=10**9), "1,000,000,000 files, more than sizer reads"),
    "more files than fit": (archive(FILES, count=60_000), "its directory is beyond its end"),
    "other entries": (archive(FILES, entries=b"PK\1\3" + bytes(200)), "its directory is broken"),
    "a file elsewhere": (archive(FILES, shift=1), "is not where the directory says"),
    "a file longer than the archive": (archive(FILES, sizes={"a/data.pkl": 10_000}), "is cut off"),
    "a file over the bound": (
        archive(FILES, sizes={"a/data.pkl": 40_000_000}),
        "takes 40,000,000 bytes, over 32,000,000",
    ),
    "a storage beyond the end": (
        archive(
            {**FILES, "a/data.pkl": state(w=tensor("0", (4000,), (1,), 4000))}, sizes={"a/data/0": 16_000}
        ),
        "the storage 0 lies beyond the file's end",
    ),
    "packed by bzip2": (archive({"a/data.pkl": bz2.compress(PICKLE)}, method=12), "packed by method 12"),
    "no deflated text": (archive({"a/data.pkl": b"\xff" * 40}, method=8), "does not unpack"),
    "no pickle": (archive({"a/other": PICKLE}), "without a data.pkl"),
}


@pytest.mark.parametrize("case", LIES)
def test_an_archive_that_lies_is_refused(tmp_path: Path, case: str) -> None:
    data, said = LIES[case]
    (tmp_path / "m.pt").write_bytes(data)

    with pytest.raises(sizer.SizerError, match=r"m\.pt") as caught:
        sizer.load_checkpoint(tmp_path / "m.pt")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "m.pt", "w") as made:
        warnings.simplefilter("ignore")
        for _ in range(2):
            made.writestr("a/data.pkl", PICKLE)

    with pytest.raises(sizer.SizerError, match=r"'a/data\.pkl' twice"):
        sizer.load_checkpoint(tmp_path / "m.pt")
