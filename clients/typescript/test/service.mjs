// A round with a real service: node test/service.mjs URL TOKEN
import assert from "node:assert/strict";
import { Client, OnebitError } from "../index.js";

const [, , url, token] = process.argv;
const client = new Client(`${url}/`, { token, attempts: 3 });
const refusal = (promise) => promise.then(() => assert.fail("it was not refused"), (error) => error);

assert.equal((await client.healthz()).status, "ok");
assert.equal((await client.readyz()).ready, true);
const made = await client.create({ name: "fruit", classes: ["apple", "pear"], learner: "banditron", features: { kind: "numbers", size: 2 } });
assert.deepEqual([made.name, made.classes, made.mode], ["fruit", ["apple", "pear"], "learn"]);

const one = await client.decide("fruit", { id: "a/b c", x: [1, 2] });
assert.ok(["apple", "pear"].includes(one.label));
assert.deepEqual(await client.decide("fruit", { id: "a/b c", x: [1, 2] }), one);
const many = await client.decide("fruit", [{ x: [1, 0] }, { x: [0, 1] }]);
assert.equal(new Set(many.map(({ id }) => id)).size, 2);
assert.equal((await client.feedback("fruit", { id: "a/b c", right: true })).status, "accepted");
assert.deepEqual((await client.feedback("fruit", many.map(({ id }) => ({ id, reward: 0.5 })))).map(({ status }) => status), ["accepted", "accepted"]);
assert.equal((await client.decision("fruit", "a/b c")).right, true);
assert.equal((await client.decisions("fruit", { limit: 2, before: null })).decisions.length, 2);
assert.equal((await client.stats("fruit", { window: 10 })).window.size, 10);
assert.equal((await client.explanation("fruit", { id: "a/b c", top: 1 })).parts.length, 1);
assert.equal((await client.change("fruit", { mode: "shadow" })).mode, "shadow");
assert.deepEqual((await client.tasks()).tasks.map(({ name }) => name), ["fruit"]);
assert.ok((await client.learners()).learners.some(({ name }) => name === "auto"));

const invalid = await refusal(client.decide("fruit", { x: [1, 2, 3] }));
assert.ok(invalid instanceof OnebitError);
assert.deepEqual([invalid.status, invalid.code, invalid.field, invalid.problem.status], [422, "invalid", "x", 422]);
assert.equal((await refusal(client.task("nothing"))).code, "not_found");
assert.equal((await refusal(new Client(url, { token: "onebit_a_b" }).tasks())).code, "unauthorized");
assert.equal((await refusal(client.decision("fruit", ".."))).code, "invalid");
const nobody = new Client("http://127.0.0.1:9", { attempts: 2 });
assert.deepEqual([(await refusal(nobody.tasks())).code, (await refusal(nobody.tasks())).status], ["unreachable", null]);

// What is lost on the way is sent again with the same id; what cannot be sent twice is not.
const asked = [];
const losing = (times) => async (address, options) => {
  asked.push(options.body);
  if (asked.length <= times) throw new TypeError("lost");
  return fetch(address, options);
};
await new Client(url, { token, fetch: losing(1) }).decide("fruit", { x: [1, 2] });
assert.equal(asked.length, 2);
assert.equal(asked[0], asked[1]);
asked.length = 0;
assert.equal((await refusal(new Client(url, { token, fetch: losing(1) }).delete("fruit"))).code, "unreachable");
assert.equal(asked.length, 1);

// What the service refuses for now is sent again when it says.
let refused = 0;
const busy = async (address, options) => {
  if (refused === 1) return fetch(address, options);
  refused += 1;
  const problem = { error: { code: "too_many", message: "too many", field: null } };
  return new Response(JSON.stringify(problem), { status: 429, headers: { "content-type": "application/problem+json", "retry-after": "1" } });
};
const began = Date.now();
assert.equal((await new Client(url, { token, fetch: busy }).delete("fruit")).name, "fruit");
assert.ok(Date.now() - began >= 950);

const elsewhere = new Client(url, { fetch: async () => new Response("<html>", { status: 200, headers: { "content-type": "text/html" } }) });
assert.equal((await refusal(elsewhere.tasks())).code, "unexpected");
console.log("all is well");
