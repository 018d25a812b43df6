/** A gateway that is killed during any step of a start leaves no process behind. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { descendantsOf } from "../../packages/runner/test/support/process-tree.ts";
import { eventually, isAlive } from "../support/processes.ts";
import { verifies } from "../support/verifies.ts";
import { type Change, weakened } from "./hostile.ts";

const FIXTURE = fileURLToPath(
  new URL("../../packages/runner/test/fixtures/doomed-start.ts", import.meta.url),
);
/** Marks the process by its name and waits, long enough to kill the gateway meanwhile. */
const PAUSE = '{ prctl(PR_SET_NAME, "paused"); usleep(999999); usleep(999999); }';

/** The step before which the process waits: the source, and the code of the step. */
const STEPS: [string, string, string][] = [
  ["the namespaces exist", "stage.c", "  create_namespaces();"],
  ["PID 1 exists", "stage.c", "  pid_t first = fork();"],
  ["the outer process is tied to the gateway again", "stage.c", "  die_with_gateway(gateway);\n  return"],
  ["PID 1 is tied to the outer process", "first-process.c", "  setsid();"],
  ["the commands are read", "first-process.c", "  int count = read_words(words), at = 0;"],
  ["the host's folders are detached", "first-process.c", "  finish_root();"],
  ["the order is read", "first-process.c", "  read_order();"],
  ["the user namespace exists", "first-process.c", "  enter_user_namespace(proc, uid, gid);"],
  ["the capabilities are dropped", "first-process.c", "  drop_capabilities();"],
  ["the filter is installed", "init.c", "  install_filter();\n  sigemptyset"],
  ["the plugin is executed", "init.c", "  execve(arguments[0], arguments, environment);"],
];

function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    return "";
  }
}

/** sandbox-init that waits before a step. */
function pausedBefore(file: string, code: string, ...more: Change[]): string {
  const declared = "#include <sys/prctl.h>\n#include <unistd.h>\n";
  return weakened(
    [file, code, `  ${PAUSE}\n${code}`],
    [file, '#include "sandbox-init.h"', `${declared}#include "sandbox-init.h"`],
    ...more,
  ).init;
}

/** Starts a gateway and waits until its first sandbox is at the step. Returns all processes of the sandbox. */
async function startPaused(init: string) {
  const gateway = spawn(process.execPath, ["--conditions=backplane-source", FIXTURE, init], {
    stdio: "ignore",
  });
  onTestFinished(() => void gateway.kill("SIGKILL"));
  const isPaused = () => descendantsOf(gateway.pid!).some((pid) => nameOf(pid) === "paused");
  await eventually(isPaused, 30_000, "the start is at this step");
  return { gateway, processes: descendantsOf(gateway.pid!) };
}

for (const [step, file, code] of STEPS) {
  verifies("sandbox.kill", `kill -9 of the gateway before ${step} leaves no process`, async () => {
    const { gateway, processes } = await startPaused(pausedBefore(file, code));
    expect(processes.length).toBeGreaterThan(0);
    gateway.kill("SIGKILL");
    await eventually(() => !processes.some(isAlive), 30_000, "every process is gone");
  });
}

test("PID 1 exits if its outer process was killed before they were linked", async () => {
  // The plugin would never end, and the gateway is alive, so nothing else ends PID 1.
  const forever: Change = [
    "init.c",
    "  execve(arguments[0], arguments, environment);",
    "  for (;;) pause();",
  ];
  const { gateway, processes } = await startPaused(pausedBefore("first-process.c", "  setsid();", forever));
  const [outer] = processes.filter((pid) => nameOf(pid) === "sandbox-init");
  const [first] = processes.filter((pid) => nameOf(pid) === "paused");
  process.kill(outer!, "SIGKILL");
  await eventually(() => !isAlive(first!), 60_000, "PID 1 is gone");
  expect(isAlive(gateway.pid!)).toBe(true);
});
