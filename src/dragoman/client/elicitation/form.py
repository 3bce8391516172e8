"""A form while it is being filled in: its fields with their values, and the answer they make (rules 306, 307, 309).

Owns what is shown of a field and what a typed line does to it. Who asks for the lines is up to the user interfaces.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dragoman.client.elicitation import fields
from dragoman.client.elicitation.fields import FieldError
from dragoman.schema import Unknown, v1
from dragoman.text.visible import label

if TYPE_CHECKING:
    from typing import TypeAlias

    from dragoman.client.elicitation.fields import Known, Selectable, Value

    Outcome: TypeAlias = v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation


class UnreadableForm(ValueError):
    """A required field is of a kind that this version does not know: the form cannot be accepted."""


class FormField:
    """A field and its answer."""

    def __init__(self, name: str, schema: Known, is_required: bool) -> None:
        self.name = name
        self.schema = schema
        self.is_required = is_required
        self.value: Value | None = fields.default_of(schema)  # pre-filled (rule 309)
        self.is_unchecked = False
        """The form's pattern could not be checked here."""

    @property
    def title(self) -> str:
        """Its title, or its name."""
        return self.schema.title if isinstance(self.schema.title, str) else self.name

    @property
    def description(self) -> str:
        return self.schema.description if isinstance(self.schema.description, str) else ""

    @property
    def choices(self) -> list[Selectable] | None:
        """The values to choose from; None for a field without a list."""
        return fields.selectables(self.schema)

    @property
    def is_secret(self) -> bool:
        """Whether it looks like a secret, which an agent must not ask for in a form (rule 311)."""
        return fields.is_secret(self.name, self.schema)

    @property
    def takes_several(self) -> bool:
        """Whether several values of the list can be chosen."""
        return isinstance(self.schema, v1.MultiSelectPropertySchema)

    def shown(self, missing: str = "") -> str:
        """Return the value as text; for a choice, its title."""
        titles = {option.value: option.title for option in self.choices or ()}
        match self.value:
            case None:
                return missing
            case bool(value):
                return "yes" if value else "no"
            case list() | tuple():
                return ", ".join(titles.get(str(value), str(value)) for value in self.value) or "(none)"
            case str(value):
                return titles.get(value, value)
        return str(self.value)

    def hint(self, width: int) -> str:
        """Return what to type."""
        parts = [label(fields.expects(self.schema), max(20, width - 40))]
        if self.value is not None:
            parts.append(f"Enter keeps {label(self.shown(), 30)}")
            if not self.is_required:
                parts.append(f"{fields.LEFT_OUT} leaves it out")
        elif not self.is_required:
            parts.append("Enter leaves it out")
        return "; ".join(parts)

    async def take(self, line: str) -> None:
        """Set the value to that of a typed line; an empty one keeps what is there.

        Raises: FieldError if the line does not fit, with a reason that completes a sentence which begins with the line.
        """
        if not line.strip():
            self.require()
        elif line.strip() == fields.LEFT_OUT and self.value is not None and not self.is_required:
            self.value = None
        else:
            value = fields.read(line, self.schema)
            await self._check_pattern(value)
            self.value = value

    async def set(self, value: Value | None) -> None:
        """Set a value that was chosen. Raises: FieldError if it does not fit."""
        if value is not None:
            value = fields.check(value, self.schema)
            await self._check_pattern(value)
        self.value = value

    def require(self) -> None:
        """Raises: FieldError if it has no value and needs one."""
        if self.value is None and self.is_required:
            raise FieldError("is not an answer: this field is required")

    async def _check_pattern(self, value: Value) -> None:
        pattern = self.schema.pattern if isinstance(self.schema, v1.StringPropertySchema) else None
        self.is_unchecked = False
        if isinstance(pattern, str) and isinstance(value, str):
            fits = await asyncio.to_thread(fields.fits_pattern, value, pattern)
            if fits is False:
                raise FieldError(f"does not match {pattern}")
            self.is_unchecked = fits is None


def open_fields(request: v1.ElicitationFormMode) -> list[FormField]:
    """Return the fields of a form, with their defaults. One of an unknown kind is left out if it is not required.

    Raises: UnreadableForm if a required field is of an unknown kind.
    """
    schema = request.requested_schema
    required = schema.required if isinstance(schema.required, list | tuple) else ()
    found = []
    for name, part in schema.properties_or_default.items():
        if not isinstance(part, Unknown) and not _is_unreadable(part):
            found.append(FormField(name, part, name in required))
        elif name in required:
            raise UnreadableForm(f"the field {label(name, 40)} is of a kind that cannot be asked here")
    return found


def _is_unreadable(schema: Known) -> bool:
    return isinstance(schema, v1.MultiSelectPropertySchema) and isinstance(schema.items, Unknown)


def accepted(asked: list[FormField]) -> v1.AcceptElicitation:
    """Return the answer that sends the values."""
    content: dict[str, Any] = {field.name: field.value for field in asked if field.value is not None}
    return v1.AcceptElicitation(content)
