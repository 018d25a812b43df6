/** Searches for a string in its environment and in files of all processes in /proc. argv: the string. */
import { readdirSync, readFileSync } from "node:fs";

const canary = process.argv[2];
const hits = [];
let tries = 0;
const search = (what, text) => {
  tries++;
  // The argument of this program contains the string too.
  if (text.replaceAll(`environment.mjs\0${canary}`, "").includes(canary)) hits.push(what);
};
search("environment", JSON.stringify(process.env));
for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
  for (const file of ["environ", "cmdline", "comm", "auxv"]) {
    try {
      search(`${pid}/${file}`, readFileSync(`/proc/${pid}/${file}`, "latin1"));
    } catch {
      tries++;
    }
  }
}
const names = Object.keys(process.env).sort();
process.stdout.write(JSON.stringify({ tries, hits, names }));
