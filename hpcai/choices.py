"""Registry of the implementations of a KEY's choices: one class each, in a module named like the choice."""

from collections.abc import Callable
from importlib import import_module
from typing import Generic, TypeVar

T = TypeVar("T")


class Choices(Generic[T]):
    """Classes registered by the modules of a package, by name; a module is imported on first use.

    A new choice is a new module in the package and a word in `hpcai/inputfile/keys.py`.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._classes: dict[str, type[T]] = {}

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Decorator of the class that implements a choice."""

        def enter(implementation: type[T]) -> type[T]:
            self._classes[name] = implementation
            return implementation

        return enter

    def __getitem__(self, name: str) -> type[T]:
        """The class of a choice; KeyError for a name that no module of the package has."""
        if name not in self._classes:
            if not name.isidentifier():
                raise KeyError(name)
            try:
                import_module(f"{self._package}.{name}")
            except ModuleNotFoundError:
                raise KeyError(name) from None
        return self._classes[name]
