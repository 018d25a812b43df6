/** The example plugins that come with Backplane. */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import type { RouteDeps } from "./route-deps.ts";

const ExampleSchema = z.object({
  name: z.string(),
  path: z.string().describe("The folder on the host, to be installed as a source of the kind folder."),
  description: z.string().describe("The first paragraph of its README."),
});

type Example = z.infer<typeof ExampleSchema>;

export function exampleRoutes({ examples_folder }: Pick<RouteDeps, "examples_folder">): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/plugin-examples",
      operation_id: "listPluginExamples",
      summary: "List the example plugins",
      description:
        "The examples that come with Backplane. Admin token only, because each contains a path on the host.",
      tag: "Packages",
      auth: { host: true },
      responses: {
        200: { description: "All of them.", schema: z.object({ items: z.array(ExampleSchema) }) },
      },
      handler: async () => ({
        status: 200,
        json: { items: examples_folder === null ? [] : await listExamples(examples_folder) },
      }),
    }),
  ];
}

async function listExamples(folder: string): Promise<Example[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  return await Promise.all(
    names.toSorted().map(async (name) => {
      const path = join(folder, name);
      return { name, path, description: await readDescription(path) };
    }),
  );
}

async function readDescription(folder: string): Promise<string> {
  const file = join(folder, "README.md");
  if (!existsSync(file)) return "";
  const paragraphs = (await readFile(file, "utf8")).split(/\n\s*\n/);
  const first = paragraphs.find((text) => text.trim() !== "" && !text.startsWith("#")) ?? "";
  return first.replaceAll(/\s+/g, " ").replaceAll("`", "").trim();
}
