"""Names for things: one small class behind every string that a user may type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .errors import UserError, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps names to constructors and turns a string or an object into an object.

    >>> numbers = Registry("number", int, {"one": lambda: 1})
    >>> numbers.resolve("one"), numbers.resolve(7)
    (1, 7)
    """

    def __init__(
        self,
        field: str,
        kind: type | tuple[type, ...],
        makers: dict[str, Callable[..., T]],
        *,
        aliases: dict[str, str] | None = None,
    ):
        self.field, self.kind = field, kind
        self.makers, self.aliases = dict(makers), dict(aliases or {})

    def names(self) -> list[str]:
        return sorted(self.makers)

    def register(self, name: str, maker: Callable[..., T]) -> None:
        """Adds a constructor; a name that is taken is refused."""
        if name in self.makers or name in self.aliases:
            raise UserError(f"{self.field}: the name {name!r} is taken; register another.")
        if not callable(maker):
            raise UserError(f"{self.field}: {name!r} needs a constructor, got {type(maker).__name__}.")
        self.makers[name] = maker

    def maker(self, name: str) -> Callable[..., T]:
        key = self.aliases.get(name, name)
        if key not in self.makers:
            raise unknown(self.field, name, self.makers)
        return self.makers[key]

    def resolve(self, value: Any) -> T:
        """An object of this kind, made with defaults when `value` is a name."""
        if isinstance(value, str):
            maker = self.maker(value)
            try:
                return maker()
            except TypeError as error:
                raise UserError(
                    f"{self.field}: {value!r} needs options ({error}); pass an object instead, "
                    f"as in understudy.{value.replace('-', '_')}(…)."
                ) from None
        if isinstance(value, self.kind):
            return value  # type: ignore[return-value]
        raise UserError(
            f"{self.field}: expected a name ({', '.join(self.names())}) or an object of that kind, "
            f"got {type(value).__name__}."
        )
