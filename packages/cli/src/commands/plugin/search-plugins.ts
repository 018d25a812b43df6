/** `plugin search`: curated entries first, then servers from a public registry, which are not reviewed. */
import type { ListedServer, MarketplaceOrigin } from "@backplane/contract";
import type { CommandContext } from "../../context/context.ts";
import { summarizeCard } from "../../install/card-text.ts";
import { plainLine } from "../../terminal/plain-text.ts";

export async function searchPlugins(
  context: CommandContext,
  _options: object,
  words: string[],
): Promise<undefined> {
  const text = words.join(" ").trim();
  const { marketplace } = context.client();
  const [{ items, catalogs }, servers] = await Promise.all([
    marketplace.list(text === "" ? undefined : text),
    text === "" ? null : marketplace.searchServers(text),
  ]);
  const results = { items, catalogs, servers: servers?.items ?? [], registry: servers?.registry ?? null };
  context.out.data(results, () =>
    [
      ...items.flatMap(summarizeCard),
      ...results.servers.flatMap(describeServer),
      ...describeEmptyResult(results, text),
    ].join("\n"),
  );
  for (const origin of [...catalogs, ...(results.registry === null ? [] : [results.registry])])
    if (origin.problem !== null) context.out.note(plainLine(describeProblem(origin)));
}

function describeServer({ name, version, description, sources, variables }: ListedServer): string[] {
  const required = variables.map((variable) =>
    variable.secret ? `${variable.name} (secret)` : variable.name,
  );
  const details = [
    ...(description === "" ? [] : [description]),
    ...(required.length === 0 ? [] : [`Needs ${required.join(", ")}.`]),
    ...(sources.length === 0
      ? ["None of its packages can be installed: their types are not supported."]
      : sources.slice(0, 2).map((source) => `backplane plugin install ${source}`)),
  ];
  return [
    plainLine(`${name} ${version} (public registry, not reviewed)`),
    ...details.map((line) => `  ${plainLine(line)}`),
  ];
}

function describeEmptyResult(
  results: { items: unknown[]; servers: unknown[]; registry: unknown },
  text: string,
): string[] {
  if (results.items.length + results.servers.length > 0) return [];
  // Without search words the public registry is not searched, whether one is configured or not.
  if (text === "") return ["The marketplace has no entries."];
  return [
    results.registry === null
      ? "Nothing found in the marketplace. To search MCP servers as well, set marketplace.mcp_registry in backplane.toml."
      : "Nothing found.",
  ];
}

function describeProblem({ name, fetched_at, problem }: MarketplaceOrigin): string {
  const copy =
    fetched_at === null ? "Its entries are not included." : `The copy from ${fetched_at} was used.`;
  return `${name} cannot be read: ${problem ?? ""} ${copy}`;
}
