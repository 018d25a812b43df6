/**
 * The host program for Java instruments (instr.external-host): a jar that is compiled when the first plugin needs
 * it and cached by the digest of its sources. It runs inside the plugin's process with the plugin's rights.
 */
import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { BackplaneError } from "@backplane/contract";
import type { JavaHostPaths } from "../ports/dialect.ts";

/** The oldest supported Java release. */
const RELEASE = "17";
const BUILD_MS = 120_000;
/** javac and jar run for a second or two, too short for full optimization or parallel garbage collection to pay off. */
const SHORT_RUN = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-J-XX:-UsePerfData"];
const JDK = "apt-get install -y openjdk-17-jdk-headless";
const PATH = "/usr/local/bin:/usr/bin:/bin";

export const JAVA_HOST_CLASS = "backplane.instruments.InstrumentHost";

/**
 * Returns the path of the jar. Rejects with launch_failed and installation instructions if it cannot be built. javac
 * and jar are looked up on `path`.
 */
export async function findOrBuildJavaHost({ sources, cache }: JavaHostPaths, path = PATH): Promise<string> {
  const files = (await readdir(sources, { recursive: true })).filter((name) => name.endsWith(".java")).sort();
  if (files.length === 0)
    throw new BackplaneError("launch_failed", "This installation has no host program for Java.", {
      fix: "Reinstall Backplane: packages/sdk/java is missing.",
    });
  const hash = createHash("sha256").update(`release ${RELEASE}\n`);
  for (const name of files) hash.update(`${name}\n`).update(await readFile(join(sources, name)));
  const jar = join(cache, `instrument-host-${hash.digest("hex").slice(0, 32)}.jar`);
  const known = await readFile(`${jar}.sha256`, "utf8").catch(() => null);
  if (known !== null && known === (await readChecksum(jar))) return jar;
  // Built under a unique name first: two plugins may need it at the same time, and a build may be killed.
  const draft = `${jar}.${randomUUID()}`;
  await mkdir(cache, { recursive: true, mode: 0o700 });
  try {
    await runJdkTool("javac", ["--release", RELEASE, "-d", draft, ...files], sources, path);
    await runJdkTool("jar", ["--create", "--file", `${draft}.jar`, "-C", draft, "."], sources, path);
    // The plugin may run as a different user than the gateway.
    await chmod(`${draft}.jar`, 0o644);
    await writeFile(`${draft}.sha256`, (await readChecksum(`${draft}.jar`)) ?? "", { mode: 0o444 });
    await rename(`${draft}.jar`, jar);
    await rename(`${draft}.sha256`, `${jar}.sha256`);
    return jar;
  } finally {
    await rm(draft, { recursive: true, force: true });
    await rm(`${draft}.jar`, { force: true });
    await rm(`${draft}.sha256`, { force: true });
  }
}

async function readChecksum(file: string): Promise<string | null> {
  const bytes = await readFile(file).catch(() => null);
  return bytes === null ? null : createHash("sha256").update(bytes).digest("hex");
}

async function runJdkTool(
  program: string,
  args: readonly string[],
  cwd: string,
  path: string,
): Promise<void> {
  try {
    await promisify(execFile)(program, [...SHORT_RUN, ...args], {
      cwd,
      env: { PATH: path },
      timeout: BUILD_MS,
    });
  } catch (error) {
    const { code, stderr = "", message } = error as { code?: unknown; stderr?: string; message: string };
    const reason =
      code === "ENOENT"
        ? `${program} is not on ${path}`
        : `${program}: ${(stderr.trim().split("\n")[0] || message).slice(0, 300)}`;
    throw new BackplaneError(
      "launch_failed",
      `The host program for Java must be compiled once, which needs a JDK ${RELEASE} or newer: ${reason}.`,
      { fix: `Install one: ${JDK}` },
    );
  }
}
