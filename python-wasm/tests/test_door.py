"""Frames and their JSON."""

import json
import json.encoder

import pytest

from _belljar.protocol import door as door_module


@pytest.mark.parametrize(
    "value",
    [None, True, 1.5, -0.0, 2**63, 'é\n"\\', [], {}, {"a": [1, {"b": None}]}, "\U0001f600"],
)
def test_plain_values_come_back(value):
    assert json.loads(door_module.encode(value)) == value


def test_it_is_compact_utf8():
    assert door_module.encode({"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()


@pytest.mark.parametrize(
    ("text", "spelled"),
    [("\ud800", "\\ud800"), ("a\udcffb\n", "a\\udcffb\n"), ("\ud83d\ude00", "\\ud83d\\ude00")],
)
def test_lone_surrogates_are_spelled_out(text, spelled):
    assert json.loads(door_module.encode({text: text})) == {spelled: spelled}


def test_what_is_not_plain_is_refused():
    for value in (object(), {1, 2}, b"", float("nan"), float("inf")):
        with pytest.raises((TypeError, ValueError)):
            door_module.encode(value)


def test_it_does_not_need_the_json_module(monkeypatch):
    for name in ("dumps", "loads", "JSONDecoder", "_default_decoder"):
        monkeypatch.setattr(json, name, None)
    for name in ("c_make_encoder", "encode_basestring", "ESCAPE"):
        monkeypatch.setattr(json.encoder, name, None)
    assert door_module.decode(door_module.encode({"a": ["é", 1.5]})) == {"a": ["é", 1.5]}


@pytest.mark.parametrize("text", ["", "abc", "é", '\x00\n"', "\U0001f600"])
def test_the_size_of_text_is_what_it_takes(text):
    assert door_module.encoded_size(text) == len(door_module.encode(text)) - 2


def test_send(door):
    door_module.send(b"w", {"message": "x"})
    assert door.frames == [("w", {"message": "x"})]
