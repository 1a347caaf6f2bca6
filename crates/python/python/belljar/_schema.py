"""Derives the JSON Schema of a function's arguments from its signature and docstring, and converts
JSON arguments to the types that the function takes.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import sys
import types
import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Schema = dict[str, Any]

# Types without a JSON form are passed unchanged, so their schema allows anything.
_ANY: Schema = {}

_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    dict: _ANY,
}


@dataclasses.dataclass
class Parameter:
    """A parameter of a tool."""

    name: str
    annotation: Any
    schema: Schema
    is_required: bool


@dataclasses.dataclass
class Signature:
    """The parameters and the description of a function."""

    function: Callable[..., Any]
    name: str
    description: str
    parameters: list[Parameter]
    definitions: dict[str, Schema]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        """Inspects a function, a method, or a callable object."""
        name = getattr(function, "__name__", None) or type(function).__name__
        description, described = _documentation(inspect.getdoc(function) or "")
        annotations = _annotations(function)
        definitions: dict[str, Schema] = {}
        parameters = []
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(f"{name} takes any arguments; a tool names its parameters")
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise TypeError(f"parameter {parameter.name} of {name} has no name to call it by")
            annotation = annotations.get(parameter.name, Any)
            schema = dict(schema_of(annotation, definitions))
            if parameter.name in described and "description" not in schema:
                schema["description"] = described[parameter.name]
            is_required = parameter.default is parameter.empty
            if not is_required and _is_json(parameter.default):
                schema["default"] = parameter.default
            parameters.append(Parameter(parameter.name, annotation, schema, is_required))
        return cls(function, name, description, parameters, definitions)

    def schema(self) -> Schema:
        """Returns the JSON Schema of the arguments."""
        schema: Schema = {
            "type": "object",
            "properties": {one.name: one.schema for one in self.parameters},
            "required": [one.name for one in self.parameters if one.is_required],
            "additionalProperties": False,
        }
        if self.definitions:
            schema["$defs"] = self.definitions
        return schema

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Calls the function with arguments that conform to the schema."""
        annotations = {one.name: one.annotation for one in self.parameters}
        made = {
            name: modelled(annotations.get(name, Any), value) for name, value in arguments.items()
        }
        return self.function(**made)


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    target = function
    if not inspect.isroutine(target) and not isinstance(target, type):
        target = getattr(target, "__call__", target)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise TypeError(f"the types of {function!r} cannot be found: {error}") from error


def schema_of(annotation: Any, definitions: dict[str, Schema]) -> Schema:
    """Returns the schema of an annotation."""
    if annotation in (Any, inspect.Parameter.empty):
        return _ANY
    try:
        if annotation in _PLAIN:
            return _PLAIN[annotation]
    except TypeError:
        return _ANY
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(annotation, args, definitions)
    if origin is typing.Literal:
        return {"enum": list(args)} if all(map(_is_json, args)) else _ANY
    if origin in (typing.Union, types.UnionType):
        return _union(args, definitions)
    if origin is list or _is_sequence(origin):
        items = schema_of(args[0], definitions) if args else _ANY
        return {"type": "array", "items": items} if items else {"type": "array"}
    if origin is dict and len(args) == 2 and args[0] is str:
        values = schema_of(args[1], definitions)
        # Keys are strings; only `$` is reserved.
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    if isinstance(annotation, type):
        return _class(annotation, definitions)
    return _ANY


def _annotated(annotation: Any, args: tuple[Any, ...], definitions: dict[str, Schema]) -> Schema:
    schema = dict(schema_of(args[0], definitions))
    for extra in args[1:]:
        if isinstance(extra, str):
            schema["description"] = extra
        elif getattr(extra, "description", None):
            schema["description"] = extra.description
    return schema


def _union(args: tuple[Any, ...], definitions: dict[str, Schema]) -> Schema:
    schemas = [schema_of(one, definitions) for one in args]
    if not all(schemas):
        return _ANY
    return {"anyOf": schemas}


def _is_sequence(origin: Any) -> bool:
    import collections.abc

    return origin in (collections.abc.Sequence, collections.abc.Iterable)


def _class(kind: type, definitions: dict[str, Schema]) -> Schema:
    if _is_model(kind):
        schema = kind.model_json_schema(  # type: ignore[attr-defined]
            ref_template="#/$defs/{model}",
        )
        definitions.update(schema.pop("$defs", {}))
        return typing.cast(Schema, schema)
    if issubclass(kind, enum.Enum):
        values = [member.value for member in kind]
        return {"enum": values} if all(map(_is_json, values)) else _ANY
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = [one for one in dataclasses.fields(kind) if one.init]
        unset = dataclasses.MISSING
        return {
            "type": "object",
            "properties": {one.name: schema_of(hints[one.name], definitions) for one in fields},
            "required": [
                one.name for one in fields if one.default is unset and one.default_factory is unset
            ],
        }
    return _ANY


def _is_model(kind: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool, int, float))


def modelled(annotation: Any, value: Any) -> Any:
    """Converts a value to a model, dataclass or enum, or returns it unchanged."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return modelled(args[0], value)
    if origin in (typing.Union, types.UnionType):
        return _of_union(args, value)
    if origin is list and args and isinstance(value, list):
        return [modelled(args[0], one) for one in value]
    if origin is dict and len(args) == 2 and isinstance(value, dict):
        return {key: modelled(args[1], one) for key, one in value.items()}
    if not isinstance(annotation, type):
        return value
    if _is_model(annotation):
        return annotation.model_validate(value)  # type: ignore[attr-defined]
    if issubclass(annotation, enum.Enum):
        return annotation(value)
    if dataclasses.is_dataclass(annotation) and isinstance(value, dict):
        hints = typing.get_type_hints(annotation)
        return annotation(**{name: modelled(hints[name], one) for name, one in value.items()})
    if annotation is float and type(value) is int:
        return float(value)
    return value


def _of_union(args: tuple[Any, ...], value: Any) -> Any:
    if value is None and type(None) in args:
        return None
    for one in args:
        if one is type(None):
            continue
        if isinstance(one, type) and isinstance(value, one):
            return value
    for one in args:
        try:
            found = modelled(one, value)
        except (TypeError, ValueError):
            continue
        if found is not value:
            return found
    return value


def unmodelled(value: Any) -> Any:
    """Converts a function's result for the guest."""
    if _is_model(type(value)):
        return value.model_dump()
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: unmodelled(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if type(value) in (list, tuple):
        return type(value)(unmodelled(one) for one in value)
    if type(value) is dict:
        return {key: unmodelled(one) for key, one in value.items()}
    return value


_SECTION = re.compile(r"^(args|arguments|parameters|params)\s*:?\s*$", re.IGNORECASE)
_OTHER = re.compile(
    r"^(returns?|raises?|yields?|examples?|notes?|warnings?|see also)\s*:?\s*$", re.IGNORECASE
)
_GOOGLE = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY = re.compile(r"^(\w+)\s*(?::\s*.*)?$")
_SPHINX = re.compile(r"^:param(?:\s+[^:]*?)?\s+(\w+)\s*:\s*(.*)$")


def _documentation(text: str) -> tuple[str, dict[str, str]]:
    """Extracts the description of a function and of each parameter from a docstring in Google,
    numpy or Sphinx style.
    """
    lines = text.expandtabs().splitlines()
    described: dict[str, str] = {}
    kept: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        sphinx = _SPHINX.match(line.strip())
        if sphinx:
            described[sphinx[1]] = sphinx[2].strip()
            at += 1
        elif line.strip().startswith(":") and re.match(r":(returns?|raises|rtype|type)\b", line):
            at += 1
        elif _SECTION.match(line.strip()) and line == line.lstrip():
            at = _section(lines, at + 1, described)
        else:
            kept.append(line)
            at += 1
    return "\n".join(kept).strip(), described


def _section(lines: list[str], at: int, described: dict[str, str]) -> int:
    """Parses the parameters of a section. Returns where the section ends."""
    is_numpy = at < len(lines) and bool(lines[at].strip()) and set(lines[at].strip()) == {"-"}
    if is_numpy:
        at += 1
    name, indent = None, None
    while at < len(lines):
        line = lines[at]
        stripped = line.strip()
        own = len(line) - len(line.lstrip())
        if not stripped:
            at += 1
            continue
        if own == 0 and (not is_numpy or _OTHER.match(stripped)):
            break
        indent = own if indent is None else indent
        found = (_NUMPY if is_numpy else _GOOGLE).match(stripped) if own <= indent else None
        if found:
            name = found[1].lstrip("*")
            described[name] = "" if is_numpy else found[2].strip()
        elif name is not None:
            described[name] = f"{described[name]} {stripped}".strip()
        at += 1
    return at
