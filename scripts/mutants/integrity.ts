/** Only verified bytes run: packages from images, our own programs from private copies. */
import { type Mutant, RUNNER } from "./mutant.ts";

const SUPPLY = "packages/supply/src";
const PACKAGE_IMAGES_TESTS = ["packages/supply/test/images/package-images.test.ts"];
const PRIVATE_COPIES_TESTS = ["packages/runner/test/programs/private-copies.test.ts"];
const CHANGED_IMAGE_TESTS = ["packages/runner/test/pool/changed-image.test.ts"];

export const INTEGRITY_DEFENSES: Mutant[] = [
  {
    name: "integrity: packages run from an image, not from the content store",
    file: `${SUPPLY}/images/package-images.ts`,
    from: "folder: image.folder,\n      expandRoot",
    to: "folder: this.#options.store.treeOf(image.digest),\n      expandRoot",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: an image is hashed after it was copied",
    file: `${SUPPLY}/images/copy-tree.ts`,
    from: "const difference = await findDifference(to, files);",
    to: "const difference = (await findDifference(to, files)) && null;",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: an image's fingerprint is taken before its hash",
    file: `${SUPPLY}/images/copy-tree.ts`,
    from: "const fingerprint = await takeFingerprint(to, files);\n  const difference = await findDifference(to, files);",
    to: "const difference = await findDifference(to, files);\n  await pause(200);\n  const fingerprint = await takeFingerprint(to, files);",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: nothing starts from a changed image",
    file: `${SUPPLY}/images/package-images.ts`,
    from: "if (file === null) return this.#createHandle(image);",
    to: "if (file !== undefined) return this.#createHandle(image);",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: a damaged store is refused before a start",
    file: `${SUPPLY}/images/package-images.ts`,
    from: "await this.#confirmStore(image);",
    to: "",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: a file added to the store counts as damage",
    file: `${SUPPLY}/images/package-images.ts`,
    from: "if (name_difference !== null) throw",
    to: "if (name_difference === undefined) throw",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: fingerprints include the ctime",
    file: `${SUPPLY}/images/fingerprint.ts`,
    from: "into[at + 5] = ctimeNs;",
    to: "into[at + 5] = ctimeNs && 0n;",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: fingerprints include folders",
    file: `${SUPPLY}/images/fingerprint.ts`,
    from: "return [...files.map(({ path }) => path), ...folders];",
    to: "return folders.size > 0 ? files.map(({ path }) => path) : [];",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: only the gateway's user reaches images by their path",
    file: `${SUPPLY}/images/package-images.ts`,
    from: "mkdirSync(this.#process_folder, { mode: 0o700 });",
    to: "mkdirSync(this.#process_folder, { mode: 0o755 });",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: a listing is compared with its digest",
    file: `${SUPPLY}/content/content-store.ts`,
    from: 'if (digestOf(text) !== digest) throw corruptPackage(digest, { file: "listing", what: "changed" });',
    to: "",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: a file that the gateway reads is hashed as it is read",
    file: `${SUPPLY}/tree/read-tree.ts`,
    from: 'return hash("sha256", bytes, "hex") === sha256 ? bytes : null;',
    to: "return sha256 === undefined ? null : bytes;",
    tests: PACKAGE_IMAGES_TESTS,
  },
  {
    name: "integrity: files are checked before a call is sent",
    file: `${RUNNER}/calls/call.ts`,
    from: "await pool.check(worker);",
    to: "",
    tests: CHANGED_IMAGE_TESTS,
  },
  {
    name: "integrity: a process that serves many calls is checked again",
    file: `${RUNNER}/pool/pool.ts`,
    from: "checked_at !== null && this.#deps.clock.monotonic() - checked_at < FRESH_MS",
    to: "checked_at !== null && FRESH_MS > 0",
    tests: CHANGED_IMAGE_TESTS,
  },
  {
    name: "integrity: a process with changed files is killed",
    file: `${RUNNER}/pool/pool.ts`,
    from: 'worker.process.kill("its files were changed");',
    to: "",
    tests: CHANGED_IMAGE_TESTS,
  },
  {
    name: "integrity: an image is released",
    file: `${RUNNER}/pool/launch-preparation.ts`,
    from: "this.#image?.release();",
    to: "",
    tests: CHANGED_IMAGE_TESTS,
  },
  {
    name: "integrity: our own files are checked by their fingerprint",
    file: `${RUNNER}/programs/private-copies.ts`,
    from: "if (readFingerprint(path) !== file.fingerprint) return false;",
    to: "",
    tests: PRIVATE_COPIES_TESTS,
  },
  {
    name: "integrity: our own files are checked by their bytes while timestamps cannot be trusted",
    file: `${RUNNER}/programs/private-copies.ts`,
    from: "if (!readFileSync(path).equals(file.bytes)) return false;",
    to: "",
    tests: PRIVATE_COPIES_TESTS,
  },
  {
    name: "integrity: sandbox-init is verified after it was executed",
    file: `${RUNNER}/sandbox/spawn-confined.ts`,
    from: "if (!tools.copies.verify(own_programs)) {",
    to: "if (own_programs.length === 0) {",
    tests: ["packages/runner/test/sandbox/changed-own-files.test.ts"],
  },
  {
    name: "integrity: our own mounted files are verified after the start",
    file: `${RUNNER}/sandbox/launch-confined.ts`,
    from: "if (!parts.tools.copies.verify(own_files)) await failStart(ownFilesChanged);",
    to: "",
    tests: ["packages/runner/test/sandbox/changed-own-files.test.ts"],
  },
];
