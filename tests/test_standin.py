"""The stand-in over real HTTP: what a client sees on the wire, and what the stand-in says it did."""

from __future__ import annotations

import gc
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standin_server import Server, serve, standin

from longform.errors import UsageError
from longform.llm import offline
from longform.llm.limits import seconds_of as _unused  # noqa: F401  # pragma: no cover
