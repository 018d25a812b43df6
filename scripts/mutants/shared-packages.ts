/** Packages in the database that gateways share: nothing unverified reaches a home, and nothing in use is removed. */
import type { Mutant } from "./mutant.ts";

const STORE = "packages/store/src/postgres/shared-packages.ts";
const STORE_TESTS = ["packages/store/test/postgres/shared-packages.test.ts"];
const FETCH = "packages/supply/src/content/fetch-package.ts";
const SHARE = "packages/supply/src/content/share-content.ts";
const SHARE_TESTS = ["packages/supply/test/content/share-content.test.ts"];

export const SHARED_PACKAGE_DEFENSES: Mutant[] = [
  {
    name: "shared packages: a fetched file matches its hash",
    file: FETCH,
    from: "if (written.sha256 !== file.sha256) throw",
    to: "if (false) throw",
    tests: SHARE_TESTS,
    only: "a changed byte",
  },
  {
    name: "shared packages: a fetched listing matches the digest",
    file: FETCH,
    from: '  if (digestOf(text) !== digest) throw damaged("changed");\n',
    to: "",
    tests: SHARE_TESTS,
    only: "a listing of another package",
  },
  {
    name: "shared packages: a fetched listing follows the rules for archives",
    file: FETCH,
    from: "    checkListing(files, { ...LIMITS, ratio: 0, ratio_from_bytes: 0 });\n",
    to: "",
    tests: SHARE_TESTS,
    only: "a listing with its digest",
  },
  {
    name: "shared packages: a fetched chunk has the length that its file requires",
    file: STORE,
    from: "case when octet_length(c.content) = wanted.bytes then c.content end as content",
    to: "c.content as content",
    tests: STORE_TESTS,
    only: "another length",
  },
  {
    name: "shared packages: a package that is in the home is not fetched again",
    file: SHARE,
    from: "    if (await local.has(digest)) return;\n",
    to: "",
    tests: SHARE_TESTS,
    only: "damaged tree in the home",
  },
  {
    name: "shared packages: concurrent requests fetch a package once",
    file: SHARE,
    from: "      fetching.set(digest, pending);\n",
    to: "",
    tests: SHARE_TESTS,
    only: "fetches them once",
  },
  {
    name: "shared packages: a file is compared with its hash before it is stored",
    file: SHARE,
    from: '    if (hash.digest("hex") !== file.sha256) throw changed();\n',
    to: "",
    tests: SHARE_TESTS,
    only: "changed after they were listed",
  },
  {
    name: "shared packages: a stored file is used again only if it is intact",
    file: STORE,
    from: "and encode(sha256(coalesce(c.content, ''::bytea)), 'hex') = f.sha256",
    to: "",
    tests: STORE_TESTS,
    only: "stores a file once",
  },
  {
    name: "shared packages: a package that another gateway installs is not removed",
    file: STORE,
    from: "h.expires_at > ",
    to: "h.expires_at < ",
    tests: STORE_TESTS,
    only: "another node is installing",
  },
  {
    name: "shared packages: a removal waits for a gateway that stores the package",
    file: STORE,
    from: "where digest = $1 for update",
    to: "where digest = $1",
    tests: STORE_TESTS,
    only: "a removal waits",
  },
  {
    name: "shared packages: a removal keeps the files of another version",
    file: STORE,
    from: "and not exists (select from shared_package_files r where r.sha256 = f.sha256)`,\n          [batch],",
    to: "`,\n          [batch],",
    tests: STORE_TESTS,
    only: "except those of another version",
  },
  {
    name: "shared packages: a backup contains the rows of a package that is damaged in the home",
    file: "packages/gateway/src/backup/create-backup.ts",
    from: "if (difference === null) omitted_packages.push(digest);",
    to: "if (difference !== undefined) omitted_packages.push(digest);",
    tests: ["packages/gateway/test/backup/shared-packages.test.ts"],
  },
];
