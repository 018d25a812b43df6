/** Describes in sentences what packages request. Exports and packages with equal permissions are described once. */
import { type Package, type Permissions, permissionDetails, WHOLE_PACKAGE } from "@backplane/contract";
import { plainLine } from "../terminal/plain-text.ts";

type DescribedPackage = Pick<Package, "package_id" | "manifest">;

interface PermissionRequest {
  /** `*` for the process of the package, which all its tools share. */
  export_id: string;
  permissions: Permissions;
}

/** The form in which `--json` prints the permissions of exports. */
interface ExportAbilities {
  exports: string[];
  sentences: string[];
}

export function listAbilities(described: DescribedPackage): ExportAbilities[] {
  return groupByText(listRequests(described), ({ permissions }) => describe(permissions)).map(
    ({ items, lines }) => ({
      exports: items.map(({ export_id }) => export_id),
      sentences: lines.map(({ sentence }) => sentence),
    }),
  );
}

/** Lines for a terminal, each with at most `max_names` names. */
export function formatPermissions(packages: readonly DescribedPackage[], max_names = Infinity): string[] {
  const named_requests = packages.flatMap((described) => nameRequests(described, packages.length > 1));
  const without = packages.filter((described) => listRequests(described).length === 0);
  return [
    ...groupByText(named_requests, ({ permissions }) => describe(permissions)).flatMap(({ items, lines }) => [
      `What ${joinNames([...new Set(items.map(({ name }) => name))], max_names)} may do:`,
      ...lines.flatMap(({ sentence, reasons }) => [
        `  ${sentence}`,
        ...reasons.map((reason) => `    The author's reason: ${reason}`),
      ]),
    ]),
    ...without.map(({ package_id }) => `${package_id} requests no permissions.`),
  ].map((line) => /^ */.exec(line)![0] + plainLine(line));
}

function listRequests({ manifest: { runtime, exports } }: DescribedPackage): PermissionRequest[] {
  const process =
    runtime.permissions === undefined ? [] : [{ export_id: WHOLE_PACKAGE, permissions: runtime.permissions }];
  return [...process, ...exports.map(({ id, permissions }) => ({ export_id: id, permissions }))];
}

function nameRequests(
  described: DescribedPackage,
  several_packages: boolean,
): (PermissionRequest & { name: string })[] {
  const { package_id } = described;
  const requests = listRequests(described);
  const uniform = groupByText(requests, ({ permissions }) => describe(permissions)).length === 1;
  return requests.map((request) => ({ ...request, name: nameOf(request.export_id) }));

  function nameOf(export_id: string): string {
    if (uniform) return package_id;
    if (export_id === WHOLE_PACKAGE) return `all tools of ${package_id}`;
    return several_packages ? `${export_id} of ${package_id}` : export_id;
  }
}

interface AbilityLine {
  sentence: string;
  reasons: readonly string[];
}

/** Omits the reason for a permission that is not requested, because it would be confusing. */
function describe(permissions: Permissions): AbilityLine[] {
  return permissionDetails(permissions).map(({ sentence, granted, reasons }) => ({
    sentence,
    reasons: granted ? reasons : [],
  }));
}

function groupByText<T>(
  items: readonly T[],
  describeItem: (item: T) => AbilityLine[],
): { items: T[]; lines: AbilityLine[] }[] {
  const groups = new Map<string, { items: T[]; lines: AbilityLine[] }>();
  for (const item of items) {
    const lines = describeItem(item);
    const key = JSON.stringify(lines);
    const group = groups.get(key) ?? { items: [], lines };
    group.items.push(item);
    groups.set(key, group);
  }
  return [...groups.values()];
}

function joinNames(names: readonly string[], max_names: number): string {
  const shown = names.slice(0, max_names);
  const more = names.length - shown.length;
  if (more > 0) return `${shown.join(", ")} and ${more} more`;
  const last = shown.at(-1)!;
  return shown.length === 1 ? last : `${shown.slice(0, -1).join(", ")} and ${last}`;
}
