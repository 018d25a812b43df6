/** Compiles and packs the example as its README describes. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runJdkTool } from "../../java-instrument/test/build-jar.ts";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));
const SOURCE = "src/com/example/notes/NotesProvider.java";
export const SDK_JAVA = fileURLToPath(new URL("../../../packages/sdk/java", import.meta.url));

export function buildProviderJar(into: string): string {
  const classes = join(into, "provider-classes");
  runJdkTool("javac", ["-implicit:none", "-sourcepath", SDK_JAVA, "-d", classes, SOURCE], FOLDER);
  const jar = join(into, "notes.jar");
  runJdkTool("jar", ["--create", "--file", jar, "-C", classes, "com", "META-INF/hefty-plugin.json"], FOLDER);
  return jar;
}

/** The arguments with which javac compiles OddProvider, which only tests use. */
export const ODD_PROVIDER_ARGS = [
  "-implicit:none",
  "-sourcepath",
  SDK_JAVA,
  join(FOLDER, "test/odd/OddProvider.java"),
] as const;
