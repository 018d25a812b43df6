/** Long work reports its progress, and stops without a trace when it is cancelled. */
import { type Mutant, RUNNER } from "./mutant.ts";

const CANCELLED_IMPORT_TESTS = ["packages/supply/test/import/cancelled-import.test.ts"];
const PROGRESS_STREAM_TESTS = ["packages/api/test/sse/progress-stream.test.ts"];
const STATUS_LINE_TESTS = ["packages/cli/test/terminal/status-line.test.ts"];
const CANCELLED_LAUNCH_TESTS = ["packages/runner/test/calls/cancelled-launch.test.ts"];

export const PROGRESS_DEFENSES: Mutant[] = [
  {
    name: "progress: a cancelled installation kills npm",
    file: "packages/supply/src/npm/npm-process.ts",
    from: '    signal?.addEventListener("abort", kill);\n',
    to: "",
    tests: CANCELLED_IMPORT_TESTS,
    only: "waits for the registry",
    hangs: true,
  },
  {
    name: "progress: a cancelled installation kills install scripts",
    file: `${RUNNER}/runner/run-confined.ts`,
    from: '  stop.addEventListener("abort", kill);\n',
    to: "",
    tests: ["packages/runner/test/runner/install-scripts.test.ts"],
    only: "ends scripts",
    hangs: true,
  },
  {
    name: "progress: a cancelled installation stops while files are hashed",
    file: "packages/supply/src/import/mcp/npm-server.ts",
    from: "    requireNotCancelled(operation);\n    const file",
    to: "    const file",
    tests: CANCELLED_IMPORT_TESTS,
    only: "hashed|unpacked",
  },
  {
    name: "progress: a cancelled installation does not install its files",
    file: "packages/supply/src/content/content-store.ts",
    from: "    requireNotCancelled(operation);\n    const file",
    to: "    const file",
    tests: CANCELLED_IMPORT_TESTS,
    only: "flushed",
  },
  {
    name: "progress: a cancelled installation does not commit",
    file: "packages/registry/src/installations/installations.ts",
    from: "            requireNotCancelled(operation);\n            operation.report({ step:",
    to: "            operation.report({ step:",
    tests: ["packages/registry/test/installations/installations.test.ts"],
    only: "a cancelled installation",
  },
  {
    name: "progress: the last report is repeated",
    file: "packages/api/src/sse/progress-stream.ts",
    from: "clock.monotonic() - sent_at >= REPEAT_MS",
    to: "clock.monotonic() - sent_at >= 10 * REPEAT_MS",
    tests: PROGRESS_STREAM_TESTS,
  },
  {
    name: "progress: a step is never replaced by the next one",
    file: "packages/api/src/sse/progress-stream.ts",
    from: "if (pending.at(-1)?.step === progress.step) pending.pop();",
    to: "if (pending.length > 0) pending.pop();",
    tests: PROGRESS_STREAM_TESTS,
  },
  {
    name: "progress: the end of the stream cancels the work",
    file: "packages/api/src/sse/progress-stream.ts",
    from: "work({ signal: stop, report })",
    to: "work({ signal: new AbortController().signal, report })",
    tests: PROGRESS_STREAM_TESTS,
  },
  {
    name: "progress: --quiet and --json print no status",
    file: "packages/cli/src/terminal/output.ts",
    from: "{ shown: !json && !quiet }",
    to: "{ shown: true }",
    tests: STATUS_LINE_TESTS,
  },
  {
    name: "progress: the status line is removed before other output",
    file: "packages/cli/src/terminal/output.ts",
    from: "    note(text) {\n      status.clear();\n",
    to: "    note(text) {\n",
    tests: STATUS_LINE_TESTS,
  },
  {
    name: "progress: a cancelled request stops the launch that only it waits for",
    file: `${RUNNER}/calls/query-process.ts`,
    from: "if (operation?.signal.aborted) pool.abandonLease(worker);\n    else pool.endLease(worker);",
    to: "pool.endLease(worker);",
    tests: CANCELLED_LAUNCH_TESTS,
  },
  {
    name: "progress: a cancelled call stops the launch that only it waits for",
    file: `${RUNNER}/calls/call.ts`,
    from: 'if (this.#interruption === "user") this.#deps.pool.abandonLease(this.#worker);\n      else this.#deps.pool.endLease(this.#worker);',
    to: "this.#deps.pool.endLease(this.#worker);",
    tests: CANCELLED_LAUNCH_TESTS,
  },
  {
    name: "progress: a launch that others wait for continues",
    file: `${RUNNER}/pool/pool.ts`,
    from: 'if (!worker.unused || worker.process.state !== "launching") return;',
    to: 'if (worker.process.state !== "launching") return;',
    tests: CANCELLED_LAUNCH_TESTS,
  },
  {
    name: "progress: the installation of a kernel plugin stops in every step",
    file: "packages/supply/src/kernel-plugins/create-plugin-sources.ts",
    from: "await installSource(valid, editable, install_options, operation)",
    to: "await installSource(valid, editable, install_options, unwatchedOperation())",
    tests: ["packages/supply/test/kernel-plugins/create-plugin-sources.test.ts"],
    only: "leaves nothing behind when an installation is cancelled",
  },
  {
    name: "progress: a kernel plugin is installed with the operation of its request",
    file: "packages/api/src/routes/plugins.ts",
    from: "kernel.plugins.install(caller, source, { editable }, operation)",
    to: "kernel.plugins.install(caller, source, { editable })",
    tests: ["packages/api/test/routes/progress.test.ts"],
  },
  {
    name: "progress: a workspace is trusted with the operation of its request",
    file: "packages/api/src/routes/workspaces.ts",
    from: "kernel.workspaces.trust(caller, body, operation)",
    to: "kernel.workspaces.trust(caller, body)",
    tests: ["packages/api/test/routes/progress.test.ts"],
  },
];
