"""The template language of SPEC.md."""


class TemplateError(ValueError):
    """A template does not follow SPEC.md."""


def render(template, values):
    """Return the text of a template with these values."""
    raise NotImplementedError
