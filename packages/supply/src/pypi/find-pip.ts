/**
 * Finds the Python that plugins run with, and a pip for it: its own, that of another Python on the gateway's PATH, or
 * one that uv fetches.
 */
import { realpath } from "node:fs/promises";
import { delimiter } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { findExecutable, runPythonTool } from "./run-python-tool.ts";

export interface FoundPython {
  /** Such as `3.11`. */
  version: string;
  python: string;
}

export interface FoundPip extends FoundPython {
  /** The folder that contains the module. */
  folder: string;
}

interface PythonSearch {
  /** The folders in which plugins look up programs. */
  plugin_path: readonly string[];
  /** The PATH of the gateway. */
  gateway_path: string;
  /** The variables for the programs that are started. */
  env: Record<string, string>;
}

interface PythonTools extends FoundPython {
  /** The folder that contains the module pip; null if there is none. */
  pip: string | null;
  /** The path of uv; null if it is not installed. */
  uv: string | null;
}

interface PipSearch extends PythonSearch {
  /** The folder of the pip that uv fetches; null if uv is not used. */
  fetched: string | null;
  /** Fetches pip unless its folder is intact. */
  fetch: (uv: string, python: string) => Promise<void>;
}

/** The first version with `--report` and `--dry-run`. */
const OLDEST_PIP = [22, 2] as const;
/** Folders of the host that the sandbox shows. */
const VISIBLE = /^\/(?:usr|bin|sbin|lib|lib64)\//;

/**
 * Prints the version of Python and, if it has pip, the version and the folder of pip. The argument is a folder that
 * may contain pip.
 */
const DESCRIBE = `
import os, sys
print("%d.%d" % sys.version_info[:2])
sys.path[:0] = sys.argv[1:]
try:
    import pip
    print(pip.__version__, os.path.dirname(os.path.dirname(pip.__file__)))
except ImportError:
    pass
`;

export async function findPip({ fetched, fetch, ...search }: PipSearch): Promise<FoundPip> {
  const { python, version, pip, uv } = await findPythonTools(search);
  if (pip !== null) return { python, version, folder: pip };
  if (uv === null || fetched === null) throw missingPip(python);
  await fetch(uv, python);
  if ((await describePython(python, search.env, fetched)).folder === fetched)
    return { python, version, folder: fetched };
  throw missingPython(`The pip that uv fetches does not run on ${python}`, INSTALL_PIP);
}

/** Throws if there is no python3 for plugins. */
export async function findPythonTools({
  plugin_path,
  gateway_path,
  env,
}: PythonSearch): Promise<PythonTools> {
  const python = await findExecutable(plugin_path, "python3");
  if (python === null) {
    throw missingPython(
      `There is no python3 in ${plugin_path.join(", ")}, where plugins look up programs`,
      "apt-get install -y python3 python3-pip",
    );
  }
  const real = await realpath(python);
  if (!VISIBLE.test(real)) {
    throw missingPython(
      `${python} is a link to ${real}, which is not visible in the sandbox`,
      "Install Python below /usr: apt-get install -y python3 python3-pip",
    );
  }
  const gateway_folders = gateway_path.split(delimiter).filter((directory) => directory !== "");
  const uv = await findExecutable(gateway_folders, "uv");
  const { version, folder } = await describePython(python, env);
  if (folder !== null) return { python, version, pip: folder, uv };
  // pip is pure Python, so one that belongs to another Python can run here.
  for (const directory of gateway_folders) {
    for (const name of ["python3", "python"]) {
      const other_python = await findExecutable([directory], name);
      const pip = other_python === null ? null : (await describePython(other_python, env)).folder;
      if (pip !== null) return { python, version, pip, uv };
    }
  }
  return { python, version, pip: null, uv };
}

export function missingPip(python: string): BackplaneError {
  return missingPython(
    `There is no pip of version ${OLDEST_PIP.join(".")} or later for ${python}, and no uv on the gateway's PATH`,
    `${INSTALL_PIP}, or install uv`,
  );
}

const INSTALL_PIP = "apt-get install -y python3-pip";

/** `folder` is null if this Python has no pip or one that is too old. */
async function describePython(
  file: string,
  env: Record<string, string>,
  pip_folder?: string,
): Promise<{ version: string; folder: string | null }> {
  const args = ["-I", "-B", "-c", DESCRIBE, ...(pip_folder === undefined ? [] : [pip_folder])];
  const { code, output } = await runPythonTool({ file, args }, { cwd: "/", env, timeout_ms: 30_000 });
  const [version = "", pip = ""] = code === 0 ? output.split("\n") : [];
  const [, major, minor, folder = null] = /^(\d+)\.(\d+)\S* (.+)$/.exec(pip) ?? [];
  const version_difference = Number(major) - OLDEST_PIP[0] || Number(minor) - OLDEST_PIP[1];
  return { version, folder: version_difference < 0 ? null : folder };
}

function missingPython(problem: string, fix: string): BackplaneError {
  return new BackplaneError(
    "plugin.install_failed",
    `${problem}. Python packages need python3, and pip or uv.`,
    { fix },
  );
}
