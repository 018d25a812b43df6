/**
 * Keeps changing and restoring the files below some folders, by rename and by writing in place. ORIGINAL and CHANGED!
 * have the same length, so that the size reveals nothing. When its input ends, it prints how many changed files it has
 * put in place. Arguments: the folders.
 */
import {
  chmodSync,
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";

const files = process.argv.slice(2).flatMap((folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path, mode: statSync(path).mode & 0o777, original: readFileSync(path) }))
    .map((file) => ({
      ...file,
      changed: Buffer.from(file.original.toString("latin1").replaceAll("ORIGINAL", "CHANGED!"), "latin1"),
    }))
    .filter(({ original, changed }) => !original.equals(changed)),
);
let swaps = 0;
let running = true;
process.stdin.resume().on("end", () => (running = false));

function replace({ path, mode }, bytes) {
  writeFileSync(`${path}.next`, bytes, { mode });
  renameSync(`${path}.next`, path);
}

function writeInPlace(file, bytes) {
  const { path, mode } = file;
  chmodSync(path, 0o755);
  try {
    const fd = openSync(path, "r+");
    writeSync(fd, bytes, 0, bytes.length, 0);
    closeSync(fd);
  } catch (error) {
    // A running program cannot be written to, but it can be replaced.
    if (error.code !== "ETXTBSY") throw error;
    replace(file, bytes);
  }
  chmodSync(path, mode);
}

const pause = (max_ms) => new Promise((done) => setTimeout(done, Math.random() * max_ms));

while (running) {
  const change = Math.random() < 0.5 ? replace : writeInPlace;
  const chosen = files.filter(() => Math.random() < 0.6);
  for (const file of chosen) change(file, file.changed);
  swaps += chosen.length;
  await pause(12);
  for (const file of chosen) change(file, file.original);
  await pause(25);
}
for (const file of files) replace(file, file.original);
process.stdout.write(`${swaps}\n`);
