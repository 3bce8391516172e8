#!/bin/sh
exec "${PYTHON:-python3}" -B -S "${TEST_DIR:-/tests}/check.py"
