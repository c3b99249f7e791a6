"""Small files in the publishers' formats, and how the tests write and load them."""

import zipfile

import pytest

from discreet_bench import datasets

ADULT = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, \
Male, 2174, 0, 40, United-States, {}\n"
BANK = """"age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";"day";\
"month";"duration";"campaign";"pdays";"previous";"poutcome";"y"
59;"admin.";"single";"unknown";"no";0;"yes";"no";"cellular";31;"jan";0;1;-1;0;"unknown";"no"
18;"new job";"married";"tertiary";"yes";-99999;"no";"yes";"unknown";1;"dec";7200;1;5;2;"success";\
"yes"
"""


def write(path, content, opener=open):
    path.parent.mkdir(exist_ok=True, parents=True)
    data = content.encode() if isinstance(content, str) else content
    with opener(path, "wb") as file:
        file.write(data)


def zipped(path, **members):
    path.parent.mkdir(exist_ok=True, parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)


def banknote(folder, rows="4,-8,0,10,1\n"):
    write(folder / "banknote" / "data_banknote_authentication.txt", rows)


def kdd_row(service, label):
    rates = ["0.25"] * 7 + ["255", "0"] + ["0.75"] * 8
    start = f"0,tcp,{service},SF,0,999999999,0,0,0,0,0,1" + ",0" * 10 + ",511,0"
    return f"{start},{','.join(rates)},{label}\n"


def small(name, folder, **options):
    """Load a small copy: neither its checksum nor its counts are the publisher's."""
    with pytest.warns(UserWarning, match="checksum"):
        return datasets.load(name, data_dir=folder, check=False, **options)


def plain(name, folder, **options):
    return small(name, folder, sparse=False, dtype="float64", **options)
