"""Import what a server on standard input needs of the SDK, and leave out the rest.

A client starts a server anew for each of its sessions, and waits for it. Most of the wait is the
SDK's import: beside what is needed here it brings its clients, a web server with authorisation,
and a validator made for each of hundreds of messages, most of which never come.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType, UnionType
from typing import Any, Union, get_origin

#: Packages that import everything in them, so that it can be had by a shorter name.
_GREEDY = ("mcp", "mcp.server")

#: What `mcp.server.lowlevel` imports for HTTP alone; it stands there in signatures.
_WEB = ("starlette", "sse_starlette", "mcp.server.auth", "mcp.server.streamable_http")


def import_sdk() -> None:
    """Import the SDK's server for standard input; another release of it perhaps as a whole.

    A server over HTTP cannot be made in this process any more.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    if "mcp" in sys.modules:
        return
    try:
        for name in _GREEDY:
            _import_lazily(name)
        with _build_on_use(), _without_web():
            import mcp.server.lowlevel
    except ModuleNotFoundError:
        raise
    except Exception:  # noqa: BLE001  Only a saving: what is there works as it is, too.
        for name in [each for each in sys.modules if each.partition(".")[0] == "mcp"]:
            del sys.modules[name]
        import mcp.server.lowlevel  # noqa: F401


def _import_lazily(name: str) -> None:
    """Make a package known whose own code runs when somebody wants a name that it defines."""
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    loader, package = spec.loader, module_from_spec(spec)

    def load(wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, wanted)

    package.__dict__["__getattr__"] = load
    sys.modules[name] = package
    above, _, own = name.rpartition(".")
    if above:
        setattr(sys.modules[above], own, package)


@contextmanager
def _build_on_use() -> Iterator[None]:
    """Let what is defined meanwhile make its validator when that is first used."""
    from pydantic import BaseModel, TypeAdapter

    config, build = BaseModel.model_config, TypeAdapter.__init__

    def defer(
        adapter: TypeAdapter[Any], type: Any, *, _parent_depth: int = 2, **given: Any
    ) -> None:
        if get_origin(type) in {Union, UnionType}:  # No other takes settings of its own.
            given.setdefault("config", {"defer_build": True})
        build(adapter, type, _parent_depth=_parent_depth + 1, **given)

    BaseModel.model_config = {**config, "defer_build": True}
    TypeAdapter.__init__ = defer  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        BaseModel.model_config = config
        TypeAdapter.__init__ = build  # type: ignore[method-assign]


@contextmanager
def _without_web() -> Iterator[None]:
    """Let empty classes stand for those of the web meanwhile."""
    there = set(sys.modules)
    finder = _Blank()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [each for each in sys.modules if _is_web(each) and each not in there]:
            del sys.modules[name]


class _Blank(MetaPathFinder, Loader):
    """Finds every module of the web, with an empty class under each name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Take these modules, and no other."""
        return ModuleSpec(name, self, is_package=True) if _is_web(name) else None

    def exec_module(self, module: ModuleType) -> None:
        """Let the module have any name."""

        def make(wanted: str) -> Any:
            if wanted.startswith("__"):
                raise AttributeError(wanted)
            return type(wanted, (), {})

        module.__dict__["__getattr__"] = make


def _is_web(name: str) -> bool:
    return any(name == each or name.startswith((f"{each}.", f"{each}_")) for each in _WEB)
