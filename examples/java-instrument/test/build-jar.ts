/** Compiles and packs the example as its README describes. */
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));
const SOURCES = "src/com/example/text";

/** Returns the reason why the JDK of this machine cannot be used, or null if it can. */
export function findJdkProblem(): string | null {
  try {
    const version_line = execFileSync("javac", ["-J-XX:-UsePerfData", "-version"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
    const version = Number(/javac (\d+)/.exec(version_line)?.[1] ?? 0);
    return version >= 17 ? null : `this needs JDK 17 or newer, but javac reports ${version_line.trim()}`;
  } catch {
    return "there is no JDK here: install one, such as Debian's openjdk-17-jdk-headless";
  }
}

export function buildJar(into: string): string {
  const classes = join(into, "classes");
  const sources = readdirSync(join(FOLDER, SOURCES)).map((name) => join(SOURCES, name));
  runJdkTool("javac", ["-d", classes, ...sources], FOLDER);
  const jar = join(into, "text.jar");
  runJdkTool("jar", ["--create", "--file", jar, "-C", classes, "com", "META-INF/hefty-plugin.json"], FOLDER);
  return jar;
}

/** Disables the JVM's optimizing compiler, which would double the CPU time of such a short run. */
export function runJdkTool(program: "javac" | "jar", args: readonly string[], cwd: string): void {
  const short_run = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-J-XX:-UsePerfData"];
  execFileSync(program, [...short_run, ...args], { cwd, stdio: "pipe" });
}
