/** A gateway that is killed during any step of a start leaves no process behind. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { descendantsOf } from "../../packages/runner/test/support/process-tree.ts";
import { eventually, isAlive } from "../support/gateway/processes.ts";
import { verifies } from "../support/verifies.ts";
import { type Change, weakenSandbox } from "./attack-programs.ts";

const FIXTURE = fileURLToPath(
  new URL("../../packages/runner/test/fixtures/doomed-start.ts", import.meta.url),
);
/** Renames the process and waits long enough for the test to kill the gateway. */
const PAUSE = '{ prctl(PR_SET_NAME, "paused"); usleep(999999); usleep(999999); }';

/** The steps before which the process pauses: the name of the step, its source file and its code. */
const STEPS: [string, string, string][] = [
  ["the namespaces exist", "stage.c", "  create_namespaces();"],
  ["PID 1 exists", "stage.c", "  pid_t first = fork();"],
  ["the outer process is tied to the gateway again", "stage.c", "  die_with_gateway(gateway);\n  return"],
  ["PID 1 is tied to the outer process", "first-process.c", "  setsid();"],
  ["the commands are read", "first-process.c", "  int count = read_words(words), at = 0;"],
  ["the host's folders are detached", "first-process.c", "  finish_root();"],
  ["the plan is read", "first-process.c", "  read_plan();"],
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

/** Builds a sandbox-init that pauses before a step. */
function buildPausedInit(file: string, code: string, ...more: Change[]): string {
  const headers = "#include <sys/prctl.h>\n#include <unistd.h>\n";
  return weakenSandbox(
    [file, code, `  ${PAUSE}\n${code}`],
    [file, '#include "sandbox-init.h"', `${headers}#include "sandbox-init.h"`],
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
    const { gateway, processes } = await startPaused(buildPausedInit(file, code));
    expect(processes.length).toBeGreaterThan(0);
    gateway.kill("SIGKILL");
    await eventually(() => !processes.some(isAlive), 30_000, "every process is gone");
  });
}

test("PID 1 exits if its outer process was killed before they were linked", async () => {
  // The plugin would never exit, and the gateway is alive, so nothing else stops PID 1.
  const never_exit: Change = [
    "init.c",
    "  execve(arguments[0], arguments, environment);",
    "  for (;;) pause();",
  ];
  const { gateway, processes } = await startPaused(
    buildPausedInit("first-process.c", "  setsid();", never_exit),
  );
  const [outer] = processes.filter((pid) => nameOf(pid) === "sandbox-init");
  const [first] = processes.filter((pid) => nameOf(pid) === "paused");
  process.kill(outer!, "SIGKILL");
  await eventually(() => !isAlive(first!), 60_000, "PID 1 is gone");
  expect(isAlive(gateway.pid!)).toBe(true);
});
