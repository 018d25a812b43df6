/** The packages that an operator allows to be built from their source archives, for all servers of one source. */
import { BackplaneError } from "@backplane/contract";
import { isPythonRequirement, normalizeProject } from "./requirement.ts";

export class AllowedBuilds {
  /** The normalized names. */
  readonly names: readonly string[];
  readonly #built = new Set<string>();

  constructor(names: readonly string[]) {
    const invalid = names.find((name) => !isPythonRequirement(name) || /[[=@]/.test(name));
    if (invalid !== undefined)
      throw new BackplaneError(
        "plugin.source_invalid",
        `${JSON.stringify(invalid.slice(0, 80))} is not the name of a Python package.`,
        { fix: "--allow-build takes a name without version and extras." },
      );
    this.names = [...new Set(names.map(normalizeProject))];
  }

  markBuilt(name: string): void {
    this.#built.add(name);
  }

  /** Throws if nothing was built for an allowed name, because it is probably misspelled. */
  assertFound(): void {
    const unknown = this.names.find((name) => !this.#built.has(name));
    if (unknown === undefined) return;
    throw new BackplaneError(
      "plugin.source_invalid",
      `A build of ${unknown} is allowed, but it is not a dependency that has to be built.`,
      {
        fix:
          this.#built.size === 0
            ? "Leave --allow-build out: every package has a wheel."
            : `Packages that have to be built: ${[...this.#built].sort().join(", ")}.`,
      },
    );
  }
}
