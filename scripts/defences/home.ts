/** Only the gateway's user can access the home, except for files that a sandbox mounts. */
import { INIT, type Mutant, RUNNER } from "./mutant.ts";

const ACCESS = "packages/gateway/src/home/home-access.ts";
const ACCESS_TESTS = ["packages/gateway/test/home/home-access.test.ts"];
const SUPPLY = "packages/supply/src";

export const HOME_DEFENCES: Mutant[] = [
  {
    defence: "home: modes are repaired",
    file: ACCESS,
    from: "if (problem.mode !== undefined) chmodSync(problem.path, problem.mode);",
    to: "",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: other users cannot open the folder itself",
    file: ACCESS,
    from: "return [...checkParents(dir), ...checkMode(dir, info)];",
    to: "return checkParents(dir);",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: other users cannot open folders below the first level",
    file: ACCESS,
    from: 'const INNER_FOLDERS = ["blobs", "plugins"];',
    to: "const INNER_FOLDERS: string[] = [];",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: a symbolic link is refused",
    file: ACCESS,
    from: "if (info.isSymbolicLink()) {",
    to: "if (false) {",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: a home of another user is refused",
    file: ACCESS,
    from: "if (info.uid !== process.geteuid!()) {",
    to: "if (false) {",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: a file of another user in the home is refused",
    file: ACCESS,
    from: "return uid !== 0 && uid !== process.geteuid!();",
    to: "return uid < 0;",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: a program of another user in the home is refused",
    file: ACCESS,
    from: 'const PROGRAM_FOLDERS = ["images", "programs", "sandbox"];',
    to: "const PROGRAM_FOLDERS: string[] = [];",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: a home that every user can replace is refused",
    file: ACCESS,
    from: "if (!sticky && (mode & 0o002) !== 0) {",
    to: "if (false) {",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: a group-writable parent is reported",
    file: ACCESS,
    from: "} else if (!sticky && (mode & 0o020) !== 0) {",
    to: "} else if (false) {",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: doctor checks the home",
    file: "packages/gateway/src/doctor/check-system.ts",
    from: "...findHomeProblems(config.home), ",
    to: "",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: the gateway sets its umask",
    file: "packages/gateway/src/start/start-gateway.ts",
    from: "  setPrivateUmask();\n",
    to: "",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: a backup sets its umask",
    file: "packages/gateway/src/store/store-files.ts",
    from: "  setPrivateUmask();\n  try {\n    return lockHome(home);",
    to: "  try {\n    return lockHome(home);",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: a restore sets its umask",
    file: "packages/gateway/src/store/store-files.ts",
    from: "  setPrivateUmask();\n  const lock = lockHome(home);",
    to: "  const lock = lockHome(home);",
    tests: ACCESS_TESTS,
  },
  {
    defence: "home: plugins get their own umask",
    file: `${INIT}/init.c`,
    from: "  umask(022);\n",
    to: "",
    tests: ["packages/runner/test/sandbox/open-sandbox.test.ts"],
  },
  {
    defence: "home: files of the sandbox are readable with any umask",
    file: `${RUNNER}/programs/private-copies.ts`,
    from: "  chmodSync(draft, mode);\n",
    to: "",
    tests: ["packages/runner/test/sandbox/open-sandbox.test.ts"],
  },
  {
    defence: "home: folders of a package image are readable with any umask",
    file: `${SUPPLY}/images/copy-tree.ts`,
    from: "    await chmod(join(to, folder), 0o755);\n",
    to: "",
    tests: ["packages/supply/test/images/package-images.test.ts"],
  },
  {
    defence: "home: other users cannot open folders above a package tree",
    file: `${SUPPLY}/content/content-store.ts`,
    from: "await mkdir(staged, { mode: 0o700 });",
    to: "await mkdir(staged, { mode: 0o755 });",
    tests: ["packages/supply/test/content/content-store.test.ts"],
  },
  {
    defence: "home: installed plugins are readable with any umask",
    file: `${SUPPLY}/kernel-plugins/npm-tree.ts`,
    from: '      await makeReadable(join(staging, "node_modules"));\n',
    to: "",
    tests: ["packages/supply/test/kernel-plugins/create-plugin-sources.test.ts"],
  },
  {
    defence: "home: copied plugins are not writable by others",
    file: `${SUPPLY}/kernel-plugins/copy-folder.ts`,
    from: "        await chmod(join(into, inner), (info.mode & 0o111) === 0 ? 0o644 : 0o755);\n",
    to: "",
    tests: ["packages/supply/test/kernel-plugins/create-plugin-sources.test.ts"],
  },
];
