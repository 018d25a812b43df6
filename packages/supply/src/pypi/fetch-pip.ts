/**
 * Fetches pip with uv, for a machine that has uv but no pip. uv unpacks one wheel and runs none of its code. The
 * wheel is pinned by its SHA-256, and its files are compared with a digest, because the gateway runs pip outside the
 * sandbox: neither an index nor a bug in uv can replace it.
 */
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { BackplaneError, codeOf, diskFault } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import { programDiskFault } from "../files/program-disk-fault.ts";
import { startRegistryProxy } from "../registries/registry-proxy.ts";
import { findFiles, mapConcurrently, readTreeFile } from "../tree/read-tree.ts";
import { listTree } from "../tree/tree-listing.ts";
import { findUpstreamProxy, runPythonTool } from "./run-python-tool.ts";

export interface PipWheel {
  version: string;
  sha256: string;
  /** The digest of the files below its folder `pip`. */
  files: string;
}

export interface FetchPipOptions {
  uv: string;
  /** The Python that pip will run on. */
  python: string;
  wheel: PipWheel;
  /** The folder that will contain the module. Its parent folder is created if necessary. */
  folder: string;
  index: URL;
  origins: ReadonlySet<string>;
  /** The environment of the gateway, which may specify a proxy and certificates. */
  env: Readonly<Record<string, string | undefined>>;
  /** The part of this environment that every program gets. */
  clean_env: Record<string, string>;
  timeout_ms: number;
}

/** The version that the tests of the wrapper in pip-command.ts pass with. */
export const PIP_WHEEL: PipWheel = {
  version: "26.2.1",
  sha256: "71138adf1f4ca900cdb7d289c21b7494329f2332b6d85f0e1c42108c0384ed3e",
  files: "sha256:07613cf2a05514e0cb3bab37ebb166d957bdbdd81447ddc1a7cd3f249e4196e3",
};
/** The wheel has less than 2 MiB, and the page of the index lists all versions. */
const MAX_BYTES = 64 * 1024 * 1024;
/** How an operator makes uv use the certificates of the system, in old and in new versions of uv. */
const CERTIFICATE_SETTINGS = ["UV_NATIVE_TLS", "UV_SYSTEM_CERTS"];

/** After success, `folder` contains the module pip and nothing else. */
export async function fetchPip(options: FetchPipOptions, operation: Operation): Promise<void> {
  if (await isIntact(options.folder, options.wheel)) return;
  const { uv, python, wheel, folder, index, origins, env, clean_env, timeout_ms } = options;
  const message = `Fetching pip ${wheel.version} with uv`;
  operation.report({ step: "download", message });
  const proxy = await startRegistryProxy({
    origins,
    upstream: (origin) => findUpstreamProxy(env, origin),
    onReceived: (done) => operation.report({ step: "download", message, done, unit: "bytes" }),
    max_bytes: MAX_BYTES,
  });
  const temporary = await mkdtemp(join(tmpdir(), "backplane-uv-"));
  let draft: string | null = null;
  try {
    await mkdir(dirname(folder), { recursive: true, mode: 0o700 });
    draft = await mkdtemp(`${folder}.`);
    // The index is named in a file, because every user of the machine can read arguments and the URL may have a login.
    const requirements = join(temporary, "requirements.txt");
    const pinned = `pip==${wheel.version} --hash=sha256:${wheel.sha256}`;
    await writeFile(requirements, `--index-url ${index.href}\n${pinned}\n`, { mode: 0o600 });
    const unpacked = join(draft, "unpacked");
    const args = ["--target", unpacked, "--python", python, "--requirement", requirements];
    const ended = await runPythonTool(
      { file: uv, args: ["pip", "install", ...FLAGS, ...args] },
      {
        cwd: temporary,
        env: { ...clean_env, ...keepCertificateSettings(env), ...uvSettings(proxy.url, temporary) },
        timeout_ms,
        signal: operation.signal,
      },
    );
    if (ended.code !== 0) {
      throw (
        programDiskFault("uv", ended.output) ??
        fetchFailure(
          ended.timed_out
            ? `uv did not finish within ${timeout_ms} ms`
            : proxy.exceeded
              ? `the Python index sent more than ${MAX_BYTES} bytes`
              : `uv reported: ${reasonOf(ended.output)}`,
          wheel,
        )
      );
    }
    // uv also writes metadata, scripts and a lock file, and every module beside pip could replace one of Python.
    const module_folder = join(draft, "module");
    await mkdir(module_folder);
    await rename(join(unpacked, "pip"), join(module_folder, "pip")).catch(() => null);
    if (!(await isIntact(module_folder, wheel)))
      throw fetchFailure("the files that uv installed are not those of the wheel", wheel);
    await rm(folder, { recursive: true, force: true });
    await rename(module_folder, folder);
  } catch (error) {
    throw codeOf(error) === undefined ? (diskFault(error, "the gateway's home (tools)") ?? error) : error;
  } finally {
    await proxy.close();
    await rm(temporary, { recursive: true, force: true });
    if (draft !== null) await rm(draft, { recursive: true, force: true });
  }
}

async function isIntact(folder: string, { files }: PipWheel): Promise<boolean> {
  const found = await digestModules(folder).catch(() => null);
  return found === files;
}

/** The modes are left out, because they depend on the program that has unpacked the wheel. */
export async function digestModules(folder: string): Promise<string> {
  const { files, irregular } = await findFiles(folder);
  if (irregular.length > 0) throw new Error(`${irregular[0]} is not a regular file`);
  const read = await mapConcurrently(files, (path) => readTreeFile(folder, path));
  return listTree(read.map((file) => ({ ...file, mode: "0644" }))).digest;
}

/** `--no-build` is left out, because it means the same as `--only-binary :all:` and conflicts with it. */
const FLAGS = [
  "--no-config",
  "--no-cache",
  "--no-deps",
  "--require-hashes",
  "--only-binary",
  ":all:",
  "--link-mode",
  "copy",
];

/** Without a PATH, uv finds no other program. It must not install a Python of its own. */
function uvSettings(proxy: string, temporary: string): Record<string, string> {
  const proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [
    [name, proxy],
    [name.toLowerCase(), proxy],
  ]);
  return {
    ...(Object.fromEntries(proxies) as Record<string, string>),
    PATH: "/nonexistent",
    TMPDIR: temporary,
    NO_COLOR: "1",
    UV_NO_PROGRESS: "1",
    UV_PYTHON_DOWNLOADS: "never",
  };
}

function keepCertificateSettings(env: FetchPipOptions["env"]): Record<string, string> {
  const kept = CERTIFICATE_SETTINGS.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]));
  return Object.fromEntries(kept) as Record<string, string>;
}

/** The lines of an error of uv, without the marks in front of them. */
function reasonOf(output: string): string {
  const lines = output.split("\n").map((line) => line.replace(/^(?:error:|[\s×╰─▶│]+)\s*/u, "").trim());
  const text = lines.filter((line) => line !== "").join(" ");
  return text === "" ? "nothing" : text.slice(0, 500);
}

function fetchFailure(reason: string, { version }: PipWheel): BackplaneError {
  return new BackplaneError(
    "plugin.install_failed",
    `There is no pip, and pip ${version} cannot be fetched with uv: ${reason}.`,
    {
      fix: `Install pip with apt-get install -y python3-pip, or make pip ${version} available in the index that pypi.index_url names.`,
    },
  );
}
