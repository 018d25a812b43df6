/** The fields of a package.json that are read here. Its author may have written anything. */
export interface PackageJson {
  name?: unknown;
  version?: unknown;
  description?: unknown;
  license?: unknown;
  bin?: unknown;
  main?: unknown;
  exports?: unknown;
  [field: string]: unknown;
}
