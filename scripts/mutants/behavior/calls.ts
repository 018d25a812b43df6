/** The queue of a call, its events and watchers, its recovery after a crash, and Idempotency-Keys. */
import type { Mutant } from "../mutant.ts";

const RECOVER = "packages/door/src/invoke/recover.ts";
const WATCH = "packages/door/src/invoke/watch.ts";
const CONCURRENCY = "packages/door/src/calls/concurrency.ts";
const EVENT_LOG = "packages/door/src/calls/event-log.ts";
const IDEMPOTENCY = "packages/door/src/idempotency/idempotency.ts";
const RECOVERY_TESTS = ["packages/door/test/invoke/recover.test.ts"];
const WATCH_TESTS = ["packages/door/test/invoke/watch.test.ts"];
const CONCURRENCY_TESTS = ["packages/door/test/calls/concurrency.test.ts"];
const EVENT_LOG_TESTS = ["packages/door/test/calls/event-log.test.ts"];
const RUN_IDEMPOTENT_TESTS = ["packages/door/test/idempotency/run-idempotent.test.ts"];
const OPEN_IDEMPOTENT_TESTS = ["packages/door/test/idempotency/open-idempotent.test.ts"];

export const CALL_MUTANTS: Mutant[] = [
  {
    name: "metrics: a call that ran on the host is counted under host",
    file: "packages/door/src/calls/call-counts.ts",
    from: "grant?.host === true",
    to: "grant === undefined",
    tests: ["packages/door/test/calls/call-counts.test.ts"],
  },
  {
    name: "queue: a queue is full at exactly its limit",
    file: CONCURRENCY,
    from: "limit.reserved >= max + this.#deps.host.queue_per_binding",
    to: "limit.reserved > max + this.#deps.host.queue_per_binding",
    tests: CONCURRENCY_TESTS,
  },
  {
    name: "queue: calls are served in order",
    file: CONCURRENCY,
    from: "const next = limit.queue.shift();",
    to: "const next = limit.queue.pop();",
    tests: CONCURRENCY_TESTS,
  },
  {
    name: "queue: a cancelled call leaves the queue",
    file: CONCURRENCY,
    from: "if (index >= 0) limit.queue.splice(index, 1);",
    to: "if (index > 0) limit.queue.splice(index, 1);",
    tests: CONCURRENCY_TESTS,
    only: "removes a cancelled call",
    hangs: true,
  },
  {
    name: "queue: a reservation is released only once",
    file: CONCURRENCY,
    from: "        if (released) return;\n        released = true;\n",
    to: "",
    tests: CONCURRENCY_TESTS,
    only: "free a reservation only once",
  },
  {
    name: "queue: this node does not lease more slots than the maximum",
    file: CONCURRENCY,
    from: "if (limit.running >= limit.max) return undefined;",
    to: "",
    tests: CONCURRENCY_TESTS,
    only: "whatever the store leases",
  },
  {
    name: "events: the number of events is bounded",
    file: EVENT_LOG,
    from: "this.seq >= events_kept ||",
    to: "this.seq > events_kept ||",
    tests: EVENT_LOG_TESTS,
  },
  {
    name: "events: the size of events is bounded",
    file: EVENT_LOG,
    from: "this.#chars + chars > events_chars",
    to: "chars > events_chars",
    tests: EVENT_LOG_TESTS,
  },
  {
    name: "events: dropped events are reported once",
    file: EVENT_LOG,
    from: "    this.#dropped = 0;\n",
    to: "",
    tests: EVENT_LOG_TESTS,
  },
  {
    name: "watch: an event is sent once",
    file: WATCH,
    from: "if (event.seq <= last) continue;",
    to: "",
    tests: WATCH_TESTS,
  },
  {
    name: "watch: a slow reader reads the remaining events from the store",
    file: WATCH,
    from: "      queue = [];\n      is_behind = true;\n",
    to: "      queue = [];\n",
    tests: WATCH_TESTS,
  },
  {
    name: "watch: a reader continues after its position",
    file: WATCH,
    from: "let last = after_seq;\n  // Starts behind",
    to: "let last = 0;\n  // Starts behind",
    tests: WATCH_TESTS,
  },
  {
    name: "recover: only repeatable calls run again",
    file: RECOVER,
    from: "return isResumable(row) || isRepeatable(row.effect_class) || isRecoverable(door, row);",
    to: 'return isResumable(row) || row.effect_class !== "unknown";',
    tests: RECOVERY_TESTS,
    only: "after a crash reruns reads",
  },
  {
    name: "recover: calls to a package without files are left to other gateways",
    file: "packages/door/src/invoke/missing-files.ts",
    from: "if (now - first_seen_at < host.missing_files_ms) skipped.push(row.id);",
    to: "if (now - first_seen_at < host.missing_files_ms) skipped.slice();",
    tests: ["packages/kernel/test/many-nodes.test.ts"],
    only: "leaves the call of a dead gateway",
  },
  {
    name: "recover: a call to a package that no gateway has ends with the reason",
    file: RECOVER,
    from: "if (await door.missing_files.isMissing(row)) return",
    to: 'if ((await door.missing_files.isMissing(row)) && row.id === "") return',
    tests: ["packages/kernel/test/many-nodes.test.ts"],
    only: "package.files_missing",
  },
  {
    name: "recover: attempts before the crash are counted",
    file: RECOVER,
    from: "row.retry_count >= door.deps.host.retry.max_attempts",
    to: "row.retry_count > door.deps.host.retry.max_attempts",
    tests: RECOVERY_TESTS,
    only: "stops rerunning a call",
  },
  {
    name: "recover: a package with other bytes does not continue a call",
    file: RECOVER,
    from: "if (call.plan.bound.package.digest !== row.package_digest) {",
    to: "if (call.plan.bound.package.version !== row.package_version) {",
    tests: RECOVERY_TESTS,
    only: "the content of its package changed",
  },
  {
    name: "recover: a recovered call has at least the minimum time",
    file: RECOVER,
    from: "Math.max(row.timeout_ms - elapsed, minimum)",
    to: "row.timeout_ms - elapsed",
    tests: RECOVERY_TESTS,
    only: "subtracts the elapsed time",
  },
  {
    name: "recover: a clock that was set back gives a call no more time",
    file: RECOVER,
    from: "return Math.min(Math.max(row.timeout_ms - elapsed, minimum), row.timeout_ms);",
    to: "return Math.max(row.timeout_ms - elapsed, minimum);",
    tests: RECOVERY_TESTS,
    only: "subtracts the elapsed time",
  },
  {
    name: "recover: the numbering of events continues",
    file: RECOVER,
    from: "live.last_seq = events.at(-1)?.seq ?? 0;",
    to: "live.last_seq = 0;",
    tests: RECOVERY_TESTS,
    only: "numbers the events of a recovered",
  },
  {
    name: "idempotency: a failure of the gateway releases the key",
    file: IDEMPOTENCY,
    from: "if (response.status >= 500 || response.status === 429) await",
    to: "if (response.status > 500 || response.status === 429) await",
    tests: RUN_IDEMPOTENT_TESTS,
  },
  {
    name: "idempotency: a refusal because of overload releases the key",
    file: IDEMPOTENCY,
    from: "response.status >= 500 || response.status === 429",
    to: "response.status >= 500",
    tests: RUN_IDEMPOTENT_TESTS,
  },
  {
    name: "idempotency: a thrown error releases the key",
    file: IDEMPOTENCY,
    from: "    await releaseKey(deps, caller, key);\n    throw error;\n",
    to: "    throw error;\n",
    tests: RUN_IDEMPOTENT_TESTS,
  },
  {
    name: "idempotency: a concurrent request gets the call of the first request",
    file: IDEMPOTENCY,
    from: 'if (codeOf(error) !== "idempotency.in_progress") throw error;',
    to: "throw error;",
    tests: OPEN_IDEMPOTENT_TESTS,
  },
  {
    name: "metrics: a settled call is counted at the door",
    file: "packages/door/src/invoke/settle.ts",
    from: "if (was_written) door.call_counts.add(final);\n  else final =",
    to: "if (!was_written) final =",
    tests: ["packages/agent/test/loop/hook-events.test.ts"],
    hangs: true,
  },
  {
    name: "metrics: a refused call is counted at the door",
    file: "packages/door/src/invoke/record.ts",
    from: "    door.call_counts.add(row);\n",
    to: "",
    tests: ["packages/agent/test/loop/hook-events.test.ts"],
  },
];
