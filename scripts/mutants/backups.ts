/** A restore changes nothing before the whole archive is verified, and never writes outside the home. */
import type { Mutant } from "./mutant.ts";

const ARCHIVE = "packages/gateway/src/backup/archive.ts";
const ARCHIVE_TESTS = ["packages/gateway/test/backup/archive.test.ts"];
const FILES = "packages/gateway/src/home/restored-files.ts";
const FILES_TESTS = ["packages/gateway/test/home/restored-files.test.ts"];

export const BACKUP_DEFENSES: Mutant[] = [
  {
    name: "backup: the bytes of an entry match their checksum",
    file: ARCHIVE,
    from: "actual.sha256 !== entry.sha256 || actual.type !== entry.type",
    to: "actual.type !== entry.type",
    tests: ARCHIVE_TESTS,
  },
  {
    name: "backup: a path stays inside the folder",
    file: ARCHIVE,
    from: "!isSafePath(path) || !options.isExpected(path)",
    to: "!options.isExpected(path)",
    tests: ARCHIVE_TESTS,
  },
  {
    name: "backup: only names that a backup contains are unpacked",
    file: ARCHIVE,
    from: "!isSafePath(path) || !options.isExpected(path)",
    to: "!isSafePath(path)",
    tests: ARCHIVE_TESTS,
  },
  {
    name: "backup: every unpacked entry is in the manifest",
    file: ARCHIVE,
    from: "if (!names.has(path)) throw invalidArchiveError(",
    to: "if (false) throw invalidArchiveError(",
    tests: ARCHIVE_TESTS,
  },
  {
    name: "backup: an interrupted restore does not set restored files aside",
    file: FILES,
    from: "if (!existsSync(staged)) continue;",
    to: "",
    tests: FILES_TESTS,
  },
  {
    name: "backup: a gateway does not start during a restore",
    file: FILES,
    from: "if (!existsSync(join(home, COMMITTED_FOLDER))) return;",
    to: "return;",
    tests: FILES_TESTS,
  },
  {
    name: "backup: files of the previous store are set aside",
    file: FILES,
    from: "plan.previous.filter((each) => !plan.restored.includes(each))",
    to: "plan.previous.slice(0, 0)",
    tests: FILES_TESTS,
  },
];
