"""Makes a service of 40 files in which many numbers look like a retry limit."""

from pathlib import Path


def put(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


AREAS = ("billing", "catalogue", "mail", "orders", "search", "users")
for area in AREAS:
    put(f"service/{area}/__init__.py", f'"""The part of the service for {area}."""\n')
    put(
        f"service/{area}/handlers.py",
        f'"""Requests about {area}."""\n\nfrom service.http import call\n\n\ndef show(id):\n'
        f'    """Return one entry of {area}."""\n    return call("{area}", id)\n',
    )
    put(
        f"service/{area}/models.py",
        f'"""What {area} stores."""\n\nMAX_{area.upper()} = {len(area) * 10}\nRETRY_PAUSE_SECONDS = 0.{len(area)}\n',
    )
    put(f"docs/{area}.md", f"# {area}\n\nA request for {area} that fails is tried again; see the configuration.\n")
    put(f"tests/test_{area}.py", f"RETRIES_IN_THIS_TEST = {len(area)}\n")
put("service/__init__.py", '"""The service."""\n')
put(
    "service/http.py",
    '"""Calls of other services."""\n\nfrom service.settings import setting\n\n\ndef call(area, id):\n'
    '    """Call a service; a failure is tried again as often as `http.attempts` states."""\n'
    '    for attempt in range(setting("http.attempts")):\n        pass\n    return (area, id)\n',
)
put(
    "service/settings.py",
    '"""Settings: defaults, then the file of the environment, then its overrides."""\n\nimport os\nimport tomllib\n'
    "from pathlib import Path\n\nFILES = (\n"
    '    "config/defaults.toml",\n    "config/{environment}.toml",\n    "deploy/{environment}/overrides.toml",\n)\n\n\n'
    'def setting(name):\n    """Return a setting; a later file wins."""\n'
    '    environment = os.environ.get("ENVIRONMENT", "development")\n    part, _, key = name.partition(".")\n'
    "    found = None\n    for each in FILES:\n        path = Path(each.format(environment=environment))\n"
    "        if path.exists():\n            values = tomllib.loads(path.read_text())\n"
    "            found = values.get(part, {}).get(key, found)\n    return found\n",
)
put("config/defaults.toml", "[http]\ntimeout = 10\nattempts = 3\n\n[mail]\nretries = 5\n")
put("config/development.toml", "[http]\nattempts = 1\n")
put("config/production.toml", "# Production. What operations decides is in deploy/.\n[http]\ntimeout = 30\nattempts = 4\n")
put("deploy/staging/overrides.toml", "[http]\nattempts = 2\n")
put(
    "deploy/production/overrides.toml",
    "# Written by operations after the outage in March.\n[mail]\nretries = 2\n\n[http]\n# The load balancer needs longer"
    " to notice a dead node.\nattempts = 7\n",
)
put("README.md", "# The service\n\nRequests to other services are tried 3 times.\n")
