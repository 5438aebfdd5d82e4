"""Write dp_accounting.json: zCDP losses converted by Google's dp-accounting, as an oracle for
`tailrace.privacy.loss`.

dp-accounting pins old packages, so it gets an environment of its own:

    python3 -m venv /tmp/oracle && /tmp/oracle/bin/pip install dp-accounting
    /tmp/oracle/bin/python tests/vectors/make_dp_accounting.py
"""

import importlib.metadata
import json
import math
from pathlib import Path

import dp_accounting
from dp_accounting import rdp

ORDERS = [1 + math.exp(-6 + 0.002 * i) for i in range(8000)]


def epsilon(rho: float, delta: float) -> float:
    accountant = rdp.RdpAccountant(ORDERS)
    accountant.compose(
        dp_accounting.GaussianDpEvent(math.sqrt(1 / (2 * rho)))
    )  # one Gaussian of sensitivity 1 is rho-zCDP
    return accountant.get_epsilon(delta)


rows = [
    {"rho": rho, "delta": delta, "epsilon": epsilon(rho, delta)}
    for rho in (0.0001, 0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 3.0, 10.0, 50.0)
    for delta in (1e-3, 1e-6, 1e-9, 1e-12)
]
target = Path(__file__).with_name("dp_accounting.json")
target.write_text(
    json.dumps(
        {"dp-accounting": importlib.metadata.version("dp-accounting"), "rows": rows}, indent=1
    )
    + "\n"
)
print(f"{len(rows)} rows written to {target.name}")
