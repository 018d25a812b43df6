/** Compiles and packs the example like its README. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));
const SOURCE = "src/com/example/notes/NotesProvider.java";
export const SDK_JAVA = fileURLToPath(new URL("../../../packages/sdk/java", import.meta.url));

export function buildProviderJar(into: string): string {
  const classes = join(into, "provider-classes");
  const run = (program: string, args: string[]) =>
    execFileSync(program, args, { cwd: FOLDER, stdio: "pipe" });
  run("javac", ["-implicit:none", "-sourcepath", SDK_JAVA, "-d", classes, SOURCE]);
  const jar = join(into, "notes.jar");
  run("jar", ["--create", "--file", jar, "-C", classes, "com", "META-INF/hefty-plugin.json"]);
  return jar;
}

/** Compiles another provider, which only tests use, and returns the folder of its classes. */
export function buildOddClasses(into: string): string {
  const classes = join(into, "odd-classes");
  const args = ["-implicit:none", "-sourcepath", SDK_JAVA, "-d", classes, "test/odd/OddProvider.java"];
  execFileSync("javac", args, { cwd: FOLDER, stdio: "pipe" });
  return classes;
}
