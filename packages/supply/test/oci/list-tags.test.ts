/** Lists of the tags of a repository, from honest and hostile registries. */
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { catchRejection, LIMITS, manifestWithBlobs, useRegistries } from "./use-registries.ts";

const { registry, other, connect, referenceTo } = useRegistries();

/** Responds with pages of one tag each; `link` is the header of the first page. */
function respondWithPages(tags: readonly string[], link = "/v2/acme/devkit/tags/list?page=1"): void {
  registry.intercept = (_request, response, url) => {
    const page = Number(url.searchParams.get("page") ?? 0);
    const next = page === 0 ? link : `${url.pathname}?page=${page + 1}`;
    if (page < tags.length - 1) response.setHeader("link", `<${next}>; rel="next"`);
    response.end(JSON.stringify({ name: "acme/devkit", tags: tags.slice(page, page + 1) }));
    return true;
  };
}

verifies("pkg.oci", "lists the tags of a repository, over all pages", async () => {
  registry.putManifest(manifestWithBlobs(registry), "1.0.0");
  registry.putManifest(manifestWithBlobs(registry), "latest");
  expect(await connect().listTags(referenceTo())).toEqual(["1.0.0", "latest"]);
  expect(registry.requests.map(({ path }) => path)).toEqual(["/v2/acme/devkit/tags/list?n=1000"]);
  respondWithPages(["0.1.0", "0.2.0"]);
  expect(await connect().listTags(referenceTo())).toEqual(["0.1.0", "0.2.0"]);
});

test("reads a repository without tags, and leaves out texts that cannot be tags", async () => {
  registry.intercept = (_request, response) => {
    response.end('{"tags":null}');
    return true;
  };
  expect(await connect().listTags(referenceTo())).toEqual([]);
  registry.intercept = (_request, response) => {
    response.end(JSON.stringify({ tags: ["1.0.0", "../../1.0.1", 7, "a b", "x".repeat(129)] }));
    return true;
  };
  expect(await connect().listTags(referenceTo())).toEqual(["1.0.0"]);
});

verifies("pkg.oci", "refuses a list of tags that continues on another origin", async () => {
  respondWithPages(["0.1.0", "0.2.0"], `${other.origin}/v2/acme/devkit/tags/list`);
  const error = await catchRejection(connect().listTags(referenceTo()));
  expect(error.code).toBe("registry.invalid");
  expect(error.message).toContain(other.host);
  expect(other.requests).toEqual([]);
});

const LISTS: [title: string, limits: object, tags: string[], problem: string][] = [
  ["tags", { tags: 2 }, ["1", "2", "3"], "more than 2 tags"],
  ["pages", { tag_pages: 2 }, ["1", "2", "3"], "more than 2 pages"],
  ["bytes", { manifest_bytes: 60 }, ["1", "2", "3"], "more than 60 bytes"],
];

test.each(LISTS)(
  "refuses a list of tags with more %s than the limit",
  async (_title, limits, tags, problem) => {
    respondWithPages(tags);
    const error = await catchRejection(connect({ limits: { ...LIMITS, ...limits } }).listTags(referenceTo()));
    expect(error).toMatchObject({ code: "registry.invalid", message: expect.stringContaining(problem) });
  },
);

test.each(["<html>", "[]", '{"tags":"1.0.0"}'])("refuses %s as a list of tags", async (body) => {
  registry.intercept = (_request, response) => {
    response.end(body);
    return true;
  };
  expect((await catchRejection(connect().listTags(referenceTo()))).code).toBe("registry.invalid");
});

test("reports a registry that has no list of tags", async () => {
  registry.intercept = (_request, response) => {
    response.writeHead(404).end();
    return true;
  };
  const error = await catchRejection(connect().listTags(referenceTo()));
  expect(error.code).toBe("registry.not_found");
  expect(error.message).toContain("list of the tags of acme/devkit");
});
