/** `plugin search`: curated entries first, then servers from a public registry, which are not reviewed. */
import type { ListedServer, MarketplaceCard, MarketplaceOrigin } from "@backplane/contract";
import type { CommandContext } from "../../context/context.ts";
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
      ...items.flatMap(describeCard),
      ...results.servers.flatMap(describeServer),
      ...describeEmptyResult(results),
    ]
      .map((line) => (line.startsWith("  ") ? `  ${plainLine(line)}` : plainLine(line)))
      .join("\n"),
  );
  for (const origin of [...catalogs, ...(results.registry === null ? [] : [results.registry])])
    if (origin.problem !== null) context.out.note(plainLine(describeProblem(origin)));
}

function describeCard(card: MarketplaceCard): string[] {
  const { id, name, description, status, package: pack, publisher, review, reason, abilities } = card;
  return [
    `${id}  ${name} ${pack.version} by ${publisher.name} (${status}, ${review.status})`,
    `  ${description}`,
    ...abilities.map((sentence) => `  ${sentence}`),
    ...(card.installable ? describeInstall(card) : [`  Not installable: ${reason ?? ""}`]),
  ];
}

function describeInstall({ id, key_trusted, signature }: MarketplaceCard): string[] {
  const key = signature?.key_id ?? "";
  return [
    key_trusted === true
      ? `  Signed with ${key}, which is trusted here.`
      : `  Signed with ${key}, which is not trusted here. To trust it: backplane key trust`,
    `  backplane plugin install marketplace:${id}`,
  ];
}

function describeServer({ name, version, description, sources, variables }: ListedServer): string[] {
  const required = variables.map((variable) =>
    variable.secret ? `${variable.name} (secret)` : variable.name,
  );
  return [
    `${name} ${version} (public registry, not reviewed)`,
    ...(description === "" ? [] : [`  ${description}`]),
    ...(required.length === 0 ? [] : [`  Needs ${required.join(", ")}.`]),
    ...(sources.length === 0
      ? ["  Its packages are of kinds that cannot be installed."]
      : sources.slice(0, 2).map((source) => `  backplane plugin install ${source}`)),
  ];
}

function describeEmptyResult(results: { items: unknown[]; servers: unknown[]; registry: unknown }): string[] {
  if (results.items.length + results.servers.length > 0) return [];
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
