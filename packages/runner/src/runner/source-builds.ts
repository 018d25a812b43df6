/**
 * Builds the wheel of a Python source archive in the sandbox. The program below is the front end that PEP 517
 * describes. It runs in the same process as the code of the archive, so nothing that it writes is trusted.
 */
import type { SourceBuilds } from "@backplane/ports";
import { type ConfinedRunDeps, runConfined } from "./run-confined.ts";

/** Arguments: module and attribute of the backend, whether its requirements are known, and the backend's folders. */
const FRONT_END = `
import importlib, json, os, site, sys

module, attribute, known, *path = sys.argv[1:]
home = os.environ["HOME"]
packages = os.path.join(home, "env", "site-packages")
out = os.path.join(home, "out")
os.environ["PATH"] = os.path.join(home, "env", "bin") + ":" + os.environ["PATH"]
os.environ["PYTHONPATH"] = packages
os.chdir(os.path.join(home, "source"))
sys.path[0] = packages
site.addsitedir(packages)
sys.path[:0] = [os.path.abspath(each) for each in path]
backend = importlib.import_module(module)
for name in filter(None, attribute.split(".")):
    backend = getattr(backend, name)
ask = getattr(backend, "get_requires_for_build_wheel", None)
wanted = [] if known == "known" or ask is None else list(ask(None))
if wanted:
    with open(os.path.join(out, "requires.json"), "w") as file:
        json.dump(wanted, file)
else:
    backend.build_wheel(out, None, None)
`;

/** A fixed time for all files: backends that respect it build the same wheel from the same sources. */
const ENV = { SOURCE_DATE_EPOCH: "315532800" };

export function createSourceBuilds(deps: ConfinedRunDeps): SourceBuilds {
  return {
    async run({ folder, name, python, backend, requirements_known, signal, limit_ms }) {
      const known = requirements_known ? "known" : "ask";
      await runConfined(deps, {
        file: python,
        args: ["-S", "-c", FRONT_END, backend.module, backend.attribute, known, ...backend.path],
        env: ENV,
        folder,
        signal,
        timeout_ms: limit_ms,
        subject: `The build of ${name}`,
        fix: "A build has no network, and only the build requirements that it declares. To compile native code, install gcc, g++, make and python3-dev on this machine, or use a version that is published as a wheel.",
      });
    },
  };
}
