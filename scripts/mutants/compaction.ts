/**
 * A compaction replaces the context of a conversation, so a malformed answer must not be applied, and pinned entries,
 * system messages and open tasks must not get lost.
 */
import type { Mutant } from "./mutant.ts";

const COMPACTOR_ANSWERS_TESTS = ["packages/agent/test/compaction/compactor-answers.test.ts"];
const ACCEPT = "packages/door/src/invoke/accept.ts";
const RESULTS = "packages/contract/src/plugins/check-results.ts";

const COMPACTOR_CONTRACT_TESTS = ["packages/agent/test/compaction/compactor-contract.test.ts"];
const COMPACTOR_CHOICE_TESTS = ["packages/agent/test/compaction/compactor-choice.test.ts"];
const COMPACTION_LOSS_TESTS = ["packages/agent/test/compaction/compaction-loss.test.ts"];
const PINS_TESTS = ["packages/agent/test/compaction/pins.test.ts"];
const THREAD_WEAVE_TESTS = ["examples/thread-weave/test/thread-weave.test.ts"];
const CALL = "packages/agent/src/compaction/call-compactor.ts";
const CHOOSE = "packages/agent/src/compaction/choose-compactor.ts";
const SEED = "packages/agent/src/compaction/build-seed.ts";
const RETAINED = "packages/session/src/compaction/retained.ts";

export const COMPACTION_DEFENSES: Mutant[] = [
  {
    name: "compaction: a compactor's answer is checked",
    file: ACCEPT,
    from: "acceptObject(ending, findCompactorIssue)",
    to: "acceptObject(ending, () => null)",
    tests: COMPACTOR_ANSWERS_TESTS,
  },
  {
    name: "compaction: an answer without blocks and without a summary is refused",
    file: RESULTS,
    from: 'seed_blocks.length === 0 && summaryTextOf(result).trim() === ""',
    to: "false",
    tests: COMPACTOR_ANSWERS_TESTS,
  },
  {
    name: "compaction: every block is checked",
    file: RESULTS,
    from: "if (issue !== null) return `seed_blocks",
    to: "if (issue !== null && index > 99) return `seed_blocks",
    tests: COMPACTOR_ANSWERS_TESTS,
  },
  {
    name: "compaction: a conversation can be compacted again after an undo",
    file: "packages/session/src/compaction/build-compaction.ts",
    from: "source.entries.at(-1)?.id ?? 0",
    to: "source.session.last_entry_id",
    tests: COMPACTOR_ANSWERS_TESTS,
  },
  {
    name: "compaction: pins are checked",
    file: SEED,
    from: '    ["is pinned", retained.pinned],\n',
    to: "",
    tests: PINS_TESTS,
  },
  {
    name: "compaction: system messages are checked",
    file: SEED,
    from: '    ["is a system message", retained.system],\n',
    to: "",
    tests: COMPACTOR_CONTRACT_TESTS,
  },
  {
    name: "compaction: open tasks are checked",
    file: SEED,
    from: '    ["is an open task", retained.open],\n',
    to: "",
    tests: COMPACTOR_CONTRACT_TESTS,
  },
  {
    name: "compaction: a result follows its call",
    file: SEED,
    from: 'block.kind === "tool_result" && !calls.has(block.tool_call_id!)',
    to: "false",
    tests: COMPACTOR_CONTRACT_TESTS,
  },
  {
    name: "compaction: a block refers only to entries of its source",
    file: SEED,
    from: "if (foreign !== undefined)",
    to: "if (foreign === -1)",
    tests: COMPACTOR_CONTRACT_TESTS,
  },
  {
    name: "compaction: the target is enforced",
    file: "packages/agent/src/compaction/compactions.ts",
    from: "        requireWithinTarget(compacted, input);\n",
    to: "",
    tests: COMPACTOR_CONTRACT_TESTS,
  },
  {
    name: "compaction: diagnostics are kept",
    file: CALL,
    from: "diagnostics: limitDiagnostics(diagnostics),",
    to: "diagnostics: null,",
    tests: COMPACTOR_CONTRACT_TESTS,
  },
  {
    name: "compaction: the host keeps pins that a compactor cannot keep",
    file: CALL,
    from: "seed: [...findMissingPins(seed, pins), ...seed],",
    to: "seed,",
    tests: PINS_TESTS,
  },
  {
    name: "compaction: the blocks of a new chain start at its summary",
    file: "packages/agent/src/agent/chains.ts",
    from: 'chain.origin === "compaction" && chain.fork_entry_id < visible_to',
    to: 'chain.origin === "reset"',
    tests: COMPACTOR_CONTRACT_TESTS,
  },
  {
    name: "compaction: the built-in summary keeps pins",
    file: "packages/agent/src/compaction/built-in-summary.ts",
    from: "...retained.pinned, ",
    to: "",
    tests: PINS_TESTS,
  },
  {
    name: "compaction: a copy is pinned like its original",
    file: RETAINED,
    from: 'return typeof meta.copy_of === "number" ? meta.copy_of : id;',
    to: "return meta.copy_of === undefined ? id : id;",
    tests: PINS_TESTS,
  },
  {
    name: "compaction: a fork inherits pins",
    file: "packages/store/src/ops/sessions.ts",
    from: "    yield* copyPins(key, keyOf(source), at);\n",
    to: "",
    tests: PINS_TESTS,
  },
  {
    name: "compaction: a requested compactor is the only candidate",
    file: CHOOSE,
    from: "bound_packages.filter((bound) => matchesRequest(bound, requested))",
    to: "[...bound_packages]",
    tests: COMPACTOR_CHOICE_TESTS,
  },
  {
    name: "compaction: compactors are ranked by context first",
    file: CHOOSE,
    from: "rank(a) - rank(b)",
    to: "rank(a) - rank(a)",
    tests: COMPACTOR_CHOICE_TESTS,
  },
  {
    name: "compaction: a project comes before its org",
    file: CHOOSE,
    from: "sortProjectFirst(picked)",
    to: "picked",
    tests: COMPACTOR_CHOICE_TESTS,
  },
  {
    name: "compaction: a session outside a rollout does not use its compactor",
    file: CHOOSE,
    from: "pickBinding(group, session_id) ?? []",
    to: "group[0]!",
    tests: COMPACTOR_CHOICE_TESTS,
  },
  {
    name: "compaction: the next candidate is used when one fails",
    file: "packages/agent/src/compaction/compactions.ts",
    from: "if (requested !== undefined || caller.signal.aborted) throw error;",
    to: "throw error;",
    tests: COMPACTOR_CHOICE_TESTS,
  },
  {
    name: "compaction: dropped entries are recorded",
    file: "packages/session/src/compaction/loss.ts",
    from: '    if (outcome === "dropped") {\n',
    to: '    if (outcome === "kept") {\n',
    tests: COMPACTION_LOSS_TESTS,
  },
  {
    name: "compaction: entries that were appended to the source later are not reported as lost",
    file: "packages/agent/src/compaction/describe-compaction.ts",
    from: "id <= last_entry_id",
    to: "id > 0",
    tests: COMPACTION_LOSS_TESTS,
  },
  {
    name: "thread weave: a block lists its entries",
    file: "examples/thread-weave/src/weave.ts",
    from: 'content: [{ type: "text", text }], from_entries });',
    to: 'content: [{ type: "text", text }], from_entries: [] });',
    tests: THREAD_WEAVE_TESTS,
  },
  {
    name: "thread weave: required blocks are kept",
    file: "examples/thread-weave/src/thread-weave.ts",
    from: ".filter((block) => required.has(block));",
    to: ".filter(() => false);",
    tests: THREAD_WEAVE_TESTS,
  },
  {
    name: "thread weave: sentences that differ in a short word are not repetitions",
    file: "examples/thread-weave/src/weave.ts",
    from: "[repetitionKey(sentence.text), sentence]",
    to: '[[...sentence.words].join(" "), sentence]',
    tests: THREAD_WEAVE_TESTS,
  },
  {
    name: "thread weave: repeated lines of the same shape get a lower score",
    file: "examples/thread-weave/src/weave.ts",
    from: "((rarity / words.size) * signals) / repeated",
    to: "-rarity * signals * repeated",
    tests: THREAD_WEAVE_TESTS,
  },
  {
    name: "compaction: diagnostics are limited",
    file: CALL,
    from: "chars <= MAX_DIAGNOSTICS_CHARS ? diagnostics",
    to: "chars <= 2 * MAX_DIAGNOSTICS_CHARS ? diagnostics",
    tests: COMPACTOR_CONTRACT_TESTS,
    only: "characters of diagnostics",
  },
  {
    name: "compaction: open messages get half of the target",
    file: RETAINED,
    from: "findOpenTasks(entries, target_tokens / 2)",
    to: "findOpenTasks(entries, target_tokens)",
    tests: ["packages/session/test/compaction/retained.test.ts"],
  },
  {
    name: "compaction: open messages are limited",
    file: RETAINED,
    from: "if (open.size > 0 && ",
    to: "if (open.size > 99 && ",
    tests: ["packages/session/test/compaction/retained.test.ts"],
  },
  {
    name: "compaction: an error that a retry cannot change is final",
    file: "packages/agent/src/compaction/compactions.ts",
    from: "const is_final = FINAL_ERRORS.has(codeOf(error));",
    to: 'const is_final = FINAL_ERRORS.has("none");',
    tests: ["packages/agent/test/compaction/compact-if-needed.test.ts"],
    only: "without a second try",
  },
];
