"""Telemetry of `dragoman agent`, set up as OpenTelemetry's own variables say.

Owns the choice of an exporter: `OTEL_TRACES_EXPORTER` is `console` (stderr: stdout is the protocol's) or `otlp`.
Without the variable nothing is imported. A program that uses the library sets OpenTelemetry up by itself.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    from dragoman.telemetry.spans import Telemetry

VARIABLE = "OTEL_TRACES_EXPORTER"
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def telemetry_from_environment() -> Telemetry | None:
    """Return the telemetry of this process; None if the variable is not set or `none`.

    Raises:
        ConfigError: the exporter is not known, or not installed.
    """
    provider = provider_from_environment()
    if provider is None:
        return None
    from dragoman.telemetry import active
    from dragoman.telemetry.spans import Telemetry

    has_content = os.environ.get(CONTENT_VARIABLE, "").lower() == "true"
    active.telemetry = Telemetry(tracer_provider=provider, content=has_content)
    return active.telemetry


def provider_from_environment() -> TracerProvider | None:
    """Return what makes and exports the spans of this process; None if the variable is not set or `none`.

    Raises:
        ConfigError: the exporter is not known, or not installed.
    """
    name = os.environ.get(VARIABLE, "").strip().lower()
    if name in ("", "none"):
        return None
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        from dragoman.extras import install_command

        raise ConfigError(
            f"{VARIABLE}={name} needs OpenTelemetry; install it with: {install_command('otel')}"
        ) from None
    service = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "dragoman"}
    provider = TracerProvider(resource=Resource.create(service))
    provider.add_span_processor(_processor(name))
    return provider


def _processor(name: str) -> SpanProcessor:
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

    if name == "console":
        return SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr))
    if name == "otlp":
        from importlib.metadata import entry_points

        for found in entry_points(group="opentelemetry_traces_exporter", name="otlp"):
            return BatchSpanProcessor(found.load()())
        raise ConfigError(f"{VARIABLE}=otlp needs an exporter; install it: pip install opentelemetry-exporter-otlp")
    raise ConfigError(f"{VARIABLE}={name} is not known; write console, otlp or none")
