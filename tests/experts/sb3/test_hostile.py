"""Files from strangers: nothing in them is ever run, and whatever is wrong with them is one sentence."""

from __future__ import annotations

import base64
import collections
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import UserError
from understudy.experts import Expert
from understudy.experts.sb3 import archive, pickles, torchfile

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sb3"
SAMPLE = FIXTURES / "ppo-discrete.zip"


class Call:
    """Pickles as a call of `function`."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def evil(mark: Path, protocol: int = 4) -> bytes:
    """A pickle that makes a file when it is loaded."""
    return pickle.dumps({"harmless": 1, "x": Call(os.mkdir, str(mark))}, protocol=protocol)


def members(path=SAMPLE) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def written(path: Path, content: dict[str, bytes], **options) -> Path:
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, data in content.items():
            file.writestr(name, data)
    return path


def zipped(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in content.items():
            file.writestr(name, data)
    return buffer.getvalue()


def with_field(content: dict[str, bytes], field: str, payload: bytes) -> dict[str, bytes]:
    data = json.loads(content["data"])
    data[field] = {":type:": "x", ":serialized:": base64.b64encode(payload).decode()}
    return {**content, "data": json.dumps(data).encode()}


def with_pth_pickle(content: dict[str, bytes], member: str, payload: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content[member])) as file:
        inner = {name: file.read(name) for name in file.namelist()}
    (place,) = (name for name in inner if name.endswith("data.pkl"))
    return {**content, member: zipped({**inner, place: payload})}


def test_the_payload_would_work(tmp_path):
    """The negative control: what follows would fail if anything were loaded."""
    pickle.loads(evil(tmp_path / "made"))
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "where", ["observation_space", "action_space", "policy_class", "policy_kwargs", "lr_schedule", "new"]
)
def test_a_malicious_field_is_refused_and_not_run(tmp_path, where, protocol):
    path = written(tmp_path / "a.zip", with_field(members(), where, evil(tmp_path / "made", protocol)))
    with pytest.raises(UserError, match=rf"{where}: would call \w+\.mkdir, .* nothing was run"):
        archive.load(path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("member", ["policy.pth", "policy.optimizer.pth", "pytorch_variables.pth"])
def test_a_malicious_torch_file_is_refused_and_not_run(tmp_path, member):
    content = with_pth_pickle(members(), member, evil(tmp_path / "made", 2))
    with pytest.raises(UserError, match=rf"{member}: would call \w+\.mkdir"):
        archive.load(written(tmp_path / "a.zip", content))
    content = {**members(), member: evil(tmp_path / "made")}  # a bare pickle in its place
    with pytest.raises(UserError, match=member):
        archive.load(written(tmp_path / "b.zip", content))
    assert not (tmp_path / "made").exists()


def test_a_malicious_extra_file_or_statistics_are_refused_and_not_run(tmp_path):
    content = {**members(), "vec_normalize.pkl": evil(tmp_path / "made")}
    with pytest.raises(UserError, match="would call"):
        archive.load(written(tmp_path / "a.zip", content))
    (tmp_path / "v.pkl").write_bytes(evil(tmp_path / "made"))
    with pytest.raises(UserError, match="would call"):
        archive.normaliser(tmp_path / "v.pkl", (5,))
    assert not (tmp_path / "made").exists()


def test_names_outside_the_list_are_refused_where_they_matter(tmp_path):
    """No list of dangerous names is complete: what is read accepts known names only."""
    unknown = pickle.dumps(Call(collections.Counter, "abc"), protocol=2)
    for field in ("observation_space", "action_space"):
        with pytest.raises(UserError, match=rf"{field}: holds collections\.Counter, which is not accepted"):
            archive.load(written(tmp_path / "a.zip", with_field(members(), field, unknown)))
    with pytest.raises(UserError, match=r"policy\.pth: holds collections\.Counter"):
        archive.load(written(tmp_path / "b.zip", with_pth_pickle(members(), "policy.pth", unknown)))
    hidden = pickle.dumps({"w": [1, (2, Call(collections.Counter, "abc"))]}, protocol=2)
    with pytest.raises(UserError, match=r"holds collections\.Counter"):
        archive.load(written(tmp_path / "c.zip", with_pth_pickle(members(), "policy.pth", hidden)))
    (tmp_path / "v.pkl").write_bytes(unknown)
    with pytest.raises(UserError, match=r"holds collections\.Counter"):
        archive.normaliser(tmp_path / "v.pkl", (5,))
    # Where they do not matter they are not looked at: archives are full of other libraries' schedules.
    assert (
        archive.load(written(tmp_path / "d.zip", with_field(members(), "lr_schedule", unknown))).kind
        == "distribution"
    )


@pytest.mark.parametrize(
    "payload",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"(cos\nsystem\nS'true'\no.",
        b"\x80\x04\x8c\x05torch\x8c\x09os.system\x93\x8c\x04true\x85R.",
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x8c\x01x0h\x00h\x01\x93\x8c\x04true\x85R.",
        b"c__builtin__\neval\n(S'1'\ntR.",
    ],
)
def test_every_way_to_write_a_call_is_seen(payload):
    with pytest.raises(UserError, match=r"would call .*(system|eval)"):
        pickles.read(payload, "it")


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        (b"", "damaged"),
        (b"\x80\x04", "damaged"),
        (b"\x80\x04K\x01", "damaged"),  # no end
        (b".", "damaged"),  # an empty stack
        (b"h\x05.", "damaged"),  # a memo that is not there
        (b"t.", "damaged"),  # no mark
        (b"(K\x01a.", "damaged"),  # appends to a mark
        (b"\x82\x01.", "EXT1 is not accepted"),
        (b"\x80\x04NN\x93.", "not a string"),
        (b"\x80\x05\x97.", "NEXT_BUFFER is not accepted"),
        (b"not a pickle at all", "damaged"),
        (b"\x80\x04\x8fN)s.", "what is no dict"),  # a set would hash the value, deep tuples end the process
    ],
)
def test_pickles_that_make_no_sense_are_refused(payload, sentence):
    with pytest.raises(UserError, match=sentence):
        pickles.read(payload, "it")


def test_plain_data_is_read_as_it_is():
    data = {"a": [1, 2.5, None, True], "b": ("x", b"y", {"c": {1, 2}}), "d": {}, "big": 1 << 100}
    for protocol in range(6):
        assert pickles.read(pickle.dumps(data, protocol=protocol), "it") == {**data} or protocol < 4
    assert pickles.read(pickle.dumps(data, protocol=4), "it") == data
    tree = pickles.read(pickle.dumps(collections.OrderedDict(a=1), protocol=2), "it")
    assert (str(tree.function), tree.items) == ("collections.OrderedDict", [("a", 1)])


def test_a_tree_of_references_does_not_grow(tmp_path):
    """Two hundred lists, each holding the one before twice: 2^200 leaves if anyone followed them all."""
    payload = b"\x80\x02]q\x00" + b"".join(b"]q%c(h%ch%ce" % (i, i - 1, i - 1) for i in range(1, 200)) + b"."
    content = with_pth_pickle(members(), "policy.pth", payload)
    with pytest.raises(UserError):
        archive.load(written(tmp_path / "a.zip", content))


LAUGHS = b"]q\x00" + b"".join(b"]q%c(h%ch%ce" % (i, i - 1, i - 1) for i in range(1, 200)) + b"0"


@pytest.mark.parametrize(
    ("place", "sentence"),
    [(b"h\xc6(K\x01t", r"tensor of shape .*, which is none"), (b"(K\x01t(h\xc6t", "which is none")],
)
def test_what_is_refused_is_not_spelled_out(place, sentence):
    """The lists of 2^200 leaves again, where the sentence shows what was found."""
    pickled = tensor_pickle().replace(b"(K\x02K\x02t(K\x02K\x01t", place)
    with pytest.raises(UserError, match=sentence):
        torchfile.state_dict(torch_zip(pickled.replace(b"\x80\x02", b"\x80\x02" + LAUGHS)), "it")


def test_numbers_and_keys_are_not_spelled_out_either(tmp_path):
    pickled = tensor_pickle().replace(b"X\x01\x00\x00\x000", b"h\xc6")
    with pytest.raises(UserError, match="holds list, which is not accepted"):
        torchfile.state_dict(torch_zip(pickled.replace(b"\x80\x02", b"\x80\x02" + LAUGHS)), "it")
    number = b"X\x01\x00\x00\x00ncnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(h\xc6tRC\x01xtR"
    space = b"\x80\x03" + LAUGHS + b"cgymnasium.spaces.discrete\nDiscrete\n)\x81}" + number + b"sb."
    with pytest.raises(UserError, match=r"holds an array of type .*; numbers are expected"):
        archive.load(written(tmp_path / "a.zip", with_field(members(), "action_space", space)))


def test_a_space_inside_itself_is_refused(tmp_path):
    inside = b"}X\x06\x00\x00\x00spaces}X\x01\x00\x00\x00ah\x00ssb."
    space = b"\x80\x02cgymnasium.spaces.dict\nDict\n)\x81q\x00" + inside
    with pytest.raises(UserError, match=r"is damaged \(RecursionError"):
        archive.load(written(tmp_path / "a.zip", with_field(members(), "observation_space", space)))


def test_a_storage_is_unpacked_once_and_tensors_made_of_it_again_and_again_are_refused(monkeypatch):
    one = tensor_pickle()[3:-2].removeprefix(b"X\x01\x00\x00\x00w")
    names = (b"X\x01\x00\x00\x00%c" % letter for letter in b"abcdefgh")
    many = torch_zip(b"\x80\x02}(" + b"".join(name + one for name in names) + b"u.")
    unpacked, member = [], torchfile.member
    monkeypatch.setattr(torchfile, "member", lambda *a: unpacked.append(a[1]) or member(*a))
    assert len(torchfile.state_dict(many, "it")) == 8 and unpacked.count("archive/data/0") == 1
    monkeypatch.setattr(torchfile, "LARGEST", 100)
    with pytest.raises(UserError, match="its tensors have more than 100 bytes"):
        torchfile._tensors(*_records(many), "it")
    storage = _records(zipped({"a/data.pkl": b"N.", "a/data/0": bytes(60), "a/data/1": bytes(60)}))[1]
    assert storage("0") == storage("0") == bytes(60)
    with pytest.raises(UserError, match="its tensors have more than 100 bytes"):
        storage("1")  # all that were unpacked are kept


def _records(data: bytes):
    file = zipfile.ZipFile(io.BytesIO(data))
    return torchfile._tree(file, "it", None)


def tensor_pickle(
    *, count=4, offset=0, shape=(2, 2), strides=(2, 1), key=b"0", kind=b"FloatStorage"
) -> bytes:
    """The pickle of one tensor `w`, as torch writes it but with numbers of one's choice."""
    out = io.BytesIO()
    out.write(
        b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n"
    )
    out.write(kind + b"\nX\x01\x00\x00\x00" + key + b"X\x03\x00\x00\x00cpu")
    out.write(pickle.dumps(count, 2)[2:-1] + b"tQ" + pickle.dumps(offset, 2)[2:-1])
    for numbers in (shape, strides):
        out.write(b"(" + b"".join(pickle.dumps(n, 2)[2:-1] for n in numbers) + b"t")
    out.write(b"\x89NtRs.")
    return out.getvalue()


def torch_zip(pickled: bytes, data: bytes = np.arange(4, dtype="<f4").tobytes()) -> bytes:
    return zipped({"archive/data.pkl": pickled, "archive/data/0": data, "archive/byteorder": b"little"})


def tensor_file(*, data: bytes = np.arange(4, dtype="<f4").tobytes(), **changes) -> bytes:
    return torch_zip(tensor_pickle(**changes), data)


def test_a_tensor_is_its_strides():
    np.testing.assert_array_equal(torchfile.state_dict(tensor_file(), "it")["w"], [[0, 1], [2, 3]])
    turned = torchfile.state_dict(tensor_file(strides=(1, 2)), "it")["w"]
    np.testing.assert_array_equal(turned, [[0, 2], [1, 3]])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"shape": (3, 2)}, "larger than its 4 numbers"),
        ({"offset": 1}, "larger than its"),
        ({"strides": (100, 1)}, "larger than its"),
        ({"shape": (1 << 40,), "strides": (0,)}, "made of only 4 numbers"),
        ({"shape": (-1, 2)}, "which is none"),
        ({"shape": (2,), "strides": (1, 1)}, "which is none"),
        ({"strides": (-1, 1)}, "which is none"),
        ({"shape": (0.5, 2)}, "which is none"),
        ({"data": b"12345678"}, "larger than its 2 numbers"),
        ({"key": b"7"}, "no member 'archive/data/7'"),
        ({"kind": b"BFloat16Storage"}, r"torch\.BFloat16Storage, which is not accepted"),
    ],
)
def test_tensors_that_reach_outside_their_storage_are_refused(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        torchfile.state_dict(tensor_file(**changes), "it")


def test_bombs_are_not_unpacked(tmp_path):
    content = {**members(), "data": b" " * 50_000_000 + members()["data"]}
    path = written(tmp_path / "a.zip", content, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    with pytest.raises(UserError, match=r"'data' would unpack from .* which no archive of weights does"):
        archive.load(path)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", b"N." + b"\0" * 50_000_000)
    with pytest.raises(UserError, match="would unpack"):
        archive.load(written(tmp_path / "b.zip", {**members(), "policy.pth": inner.getvalue()}))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_archives_are_refused(tmp_path, share):
    whole = SAMPLE.read_bytes()
    (tmp_path / "a.zip").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UserError, match=r"archive 'a\.zip'"):
        archive.load(tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "not an archive"),
        (b"{}", "has no observation_space"),
        (b'{"observation_space": {":serialized:": "%%%"}}', "not base64"),
        (b'{"observation_space": {":serialized:": ""}}', "damaged"),
        (b" " * (archive.LONGEST + 1), "33,554,433 bytes; 33,554,432 are the most"),
    ],
)
def test_wrong_data_is_refused(tmp_path, data, sentence):
    with pytest.raises(UserError, match=sentence):
        archive.load(written(tmp_path / "a.zip", {**members(), "data": data}))


@settings(max_examples=150)
@given(st.data())
def test_no_change_of_bytes_does_more_than_be_refused(tmp_path_factory, data):
    """Bytes changed in the pickles, where no checksum notices: an expert or one sentence, nothing else."""
    content = members()
    field = data.draw(st.sampled_from(["observation_space", "action_space", "policy.pth", "policy_class"]))
    if field == "policy.pth":
        with zipfile.ZipFile(io.BytesIO(content[field])) as file:
            payload = bytearray(file.read("archive/data.pkl"))
    else:
        payload = bytearray(base64.b64decode(json.loads(content["data"])[field][":serialized:"]))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    make = with_pth_pickle if field == "policy.pth" else with_field
    path = written(tmp_path_factory.mktemp("fuzz") / "a.zip", make(content, field, bytes(payload)))
    try:
        expert = archive.load(path)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(expert, Expert)
