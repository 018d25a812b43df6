/** People name a package by its id or `publisher/name[@version]`; the API by its id alone. */
import { BackplaneError, type Package } from "@backplane/contract";
import { splitPackage } from "./binding-flags.ts";
import type { Context } from "./context.ts";

const PAGE = 200;

export async function findPackage(context: Context, name: string): Promise<Package> {
  const client = context.client();
  if (name.startsWith("pkg_")) return client.packages.get(name);
  const { package_id, version } = splitPackage(name);
  const found: Package[] = [];
  let after: string | undefined;
  do {
    const page = await client.packages.list({ limit: PAGE, ...(after === undefined ? {} : { after }) });
    found.push(
      ...page.items.filter(
        (item) => item.package_id === package_id && (version ?? item.version) === item.version,
      ),
    );
    after = page.next ?? undefined;
  } while (after !== undefined);
  if (found.length === 1) return found[0]!;
  if (found.length === 0) throw new BackplaneError("package.not_found", `${name} is not installed here.`);
  const versions = found.map((item) => item.version).join(", ");
  throw new BackplaneError("cli.usage", `${package_id} is installed in several versions: ${versions}.`, {
    // The newest stands first.
    fix: `Name one, as in ${package_id}@${found[0]!.version}.`,
  });
}
