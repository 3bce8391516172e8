#!/bin/sh
exec "${PYTHON:-python3}" -B "${TEST_DIR:-/tests}/check.py"
