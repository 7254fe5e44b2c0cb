"""Import what a server on standard input needs of the SDK, and leave out the rest.

A client starts a server anew for each of its sessions, and waits for it. Most of the wait is the
SDK's import: besides what is needed here it brings its clients, a web server with authorisation,
and a validator made for each of hundreds of messages, most of which never come. Without this
file a server takes half as long again until it answers (docs/decisions/0020).

While the SDK is imported, the import system, `typing` and pydantic are patched; nothing outside
this file knows of it, and `import_sdk` is the one way in. The file goes when servers answer from
a process that stays between sessions, because then nobody waits for the import.
"""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType, UnionType
from typing import Any, Union, get_origin

#: Packages that import everything in them, so that it can be had by a shorter name.
_GREEDY = ("mcp", "mcp.server")

#: What `mcp.server.lowlevel` imports for HTTP alone; it stands there in signatures.
_WEB = re.compile(r"(starlette|sse_starlette|mcp\.server\.(auth|streamable_http))([._].*)?")

#: Modules with the messages of one version of the protocol; a connection speaks one or two.
_VERSION = re.compile(r"mcp_types\._v\d+_\d+_\d+")


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
        messages, web = _StandIns(_VERSION, _Message), _StandIns(_WEB, _make_empty)
        with _build_on_use(), messages.imported(), web.imported():
            import mcp.server.lowlevel
    except ModuleNotFoundError:
        raise
    except Exception:  # noqa: BLE001  Only a saving: what is there works as it is, too.
        for name in [
            each for each in sys.modules if each.partition(".")[0] in {"mcp", "mcp_types"}
        ]:
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
    names: Any = vars(typing)  # Annotations are texts, a quarter of which are not the same.

    def defer(
        adapter: TypeAdapter[Any], type: Any, *, _parent_depth: int = 2, **given: Any
    ) -> None:
        if get_origin(type) in {Union, UnionType}:  # No other takes settings of its own.
            given.setdefault("config", {"defer_build": True})
        build(adapter, type, _parent_depth=_parent_depth + 1, **given)

    names["compile"] = cache(compile)
    BaseModel.model_config = {**config, "defer_build": True}
    TypeAdapter.__init__ = defer  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del names["compile"]
        BaseModel.model_config = config
        TypeAdapter.__init__ = build  # type: ignore[method-assign]


class _StandIns(MetaPathFinder, Loader):
    """Finds the modules of which the whole name matches, with a stand-in under each name."""

    def __init__(self, names: re.Pattern[str], make: Callable[[str, str], object]) -> None:
        self._names = names
        self._make = make
        self._modules: list[str] = []

    @contextmanager
    def imported(self) -> Iterator[None]:
        """Let stand-ins be imported meanwhile, and the modules themselves afterwards."""
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            for name in self._modules:
                del sys.modules[name]
                above, _, own = name.rpartition(".")
                if above in sys.modules:
                    vars(sys.modules[above]).pop(own, None)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Take these modules, and no other."""
        return ModuleSpec(name, self, is_package=True) if self._names.fullmatch(name) else None

    def exec_module(self, module: ModuleType) -> None:
        """Let the module have any name."""

        def find(wanted: str) -> object:
            if wanted.startswith("__"):
                raise AttributeError(wanted)
            return self._make(module.__name__, wanted)

        module.__dict__["__getattr__"] = find
        self._modules.append(module.__name__)


def _make_empty(_: str, name: str) -> object:
    return type(name, (), {})


class _Message:
    """Stands for a message's class until it is used; then all of its version are made."""

    def __init__(self, module: str, name: str) -> None:
        self._place = (module, name)

    def __getattr__(self, wanted: str) -> Any:
        return getattr(self._load(), wanted)

    def __get_pydantic_core_schema__(self, _: object, handler: Any) -> Any:
        return handler.generate_schema(self._load())

    def _load(self) -> Any:
        module, name = self._place
        if module not in sys.modules:
            with _build_on_use():
                import_module(module)
        return getattr(sys.modules[module], name)
