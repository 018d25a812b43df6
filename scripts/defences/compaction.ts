/** A compaction replaces the context of a conversation, so a malformed answer must not be applied. */
import type { Mutant } from "./mutant.ts";

const ANSWERS = ["packages/agent/test/loop/compactor-answers.test.ts"];
const ACCEPT = "packages/door/src/invoke/accept.ts";

export const COMPACTION_DEFENCES: Mutant[] = [
  {
    defence: "compaction: a compactor's answer is checked",
    file: ACCEPT,
    from: "acceptObject(ending, compactorIssue)",
    to: "acceptObject(ending, () => null)",
    tests: ANSWERS,
  },
  {
    defence: "compaction: an answer has blocks or a summary",
    file: ACCEPT,
    from: 'seed_blocks.length === 0 && summaryTextOf(result).trim() === ""',
    to: "false",
    tests: ANSWERS,
  },
  {
    defence: "compaction: every block is checked",
    file: ACCEPT,
    from: "if (issue !== null) return `seed_blocks",
    to: "if (issue !== null && index > 99) return `seed_blocks",
    tests: ANSWERS,
  },
  {
    defence: "compaction: repeats after an undo",
    file: "packages/agent/src/loop/compaction.ts",
    from: "source.entries.at(-1)?.id ?? 0",
    to: "source.session.last_entry_id",
    tests: ANSWERS,
  },
];
