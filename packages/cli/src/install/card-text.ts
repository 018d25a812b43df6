/** Describes the cards of the marketplace. Card texts come from catalogs, so each line is sanitized. */
import type { MarketplaceCard } from "@backplane/contract";
import { fields } from "../terminal/output.ts";
import { plainLine } from "../terminal/plain-text.ts";

/** The card in a list: what the package may do, what it changes, and the command that installs it. */
export function summarizeCard(card: MarketplaceCard): string[] {
  const { id, name, description, status, package: pack, publisher, review } = card;
  return [
    plainLine(`${id}  ${name} ${pack.version} by ${publisher.name} (${status}, ${review.status})`),
    ...indent([description, ...card.abilities, ...describeVersions(card), ...describeNextStep(card)]),
  ];
}

/** All fields of the card. */
export function describeCard(card: MarketplaceCard): string {
  const { package: pack, publisher, review, source, catalog, contract } = card;
  const summary = fields({
    entry: card.id,
    name: card.name,
    description: card.description,
    status: card.status,
    package: `${pack.package_id}@${pack.version}`,
    exports: pack.exports.map(({ id, kind }) => `${id} (${kind})`),
    publisher: [publisher.name, ...(publisher.url === null ? [] : [publisher.url])].join(", "),
    review: [review.status, review.reviewed_at, review.notes].filter((part) => part !== null).join(", "),
    source: source.url,
    license: source.license,
    references: source.references.map(({ title, url }) => `${title} ${url}`),
    artifact: card.oci,
    signed_with: card.signature?.key_id ?? null,
    binds: bindsText(card),
    tokens: `${card.tokens} in each model call`,
    catalog: catalog.fetched_at === null ? catalog.name : `${catalog.name}, read ${catalog.fetched_at}`,
    in_use: card.in_use,
    ...(contract === null ? {} : { contract: contract.document }),
  });
  const requirements = (contract?.requirements ?? []).map((requirement) => `Required: ${requirement}`);
  const sentences = [
    ...card.abilities,
    ...describeVersions(card),
    ...requirements,
    ...describeNextStep(card),
  ];
  return [summary, "", ...sentences.map(plainLine)].join("\n");
}

function bindsText({ install_policy: { bind, scope } }: MarketplaceCard): string {
  if (!bind) return "nothing";
  return scope === "org" ? "for the organization" : "for the project";
}

/** The part of the card that a person approves with the installation. */
export function describeApproval(card: MarketplaceCard): string[] {
  const { name, package: pack, publisher } = card;
  return [
    plainLine(`${name} (${pack.package_id}@${pack.version}) by ${publisher.name}:`),
    ...indent([...card.abilities, ...describeVersions(card)]),
  ];
}

function describeVersions({ in_use, upgrades, package: { version } }: MarketplaceCard): string[] {
  return [
    ...(in_use.includes(version) ? [`${version} is in use.`] : []),
    ...upgrades.flatMap(({ from, changes }) =>
      changes.length === 0
        ? [`${from} → ${version}: no change to exports and permissions.`]
        : changes.map(({ text }) => `${from} → ${version}: ${text}`),
    ),
  ];
}

function describeNextStep(card: MarketplaceCard): string[] {
  const { id, key_trusted, signature, package: pack, upgrades, reason } = card;
  if (!card.installable) return [`Not installable: ${reason ?? ""}`];
  const key = signature?.key_id ?? "";
  return [
    key_trusted === true
      ? `Signed with ${key}, which is trusted here.`
      : `Signed with ${key}, which is not trusted here. To trust it: backplane key trust FILE --name NAME`,
    upgrades.length === 0
      ? `backplane plugin install marketplace:${id}`
      : `backplane plugin upgrade ${pack.package_id} --from marketplace:${id}`,
  ];
}

function indent(lines: readonly string[]): string[] {
  return lines.map((line) => `  ${plainLine(line)}`);
}
