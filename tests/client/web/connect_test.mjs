// Every method of every service, as the descriptors have them, by @connectrpc/connect-web as it is published, in JSON and in
// binary form, and by curl; and that errors are those of gRPC, to the byte of their details.
//   node connect_test.mjs BIN_DIR MODULES_DIR PROTO_DIR
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { connect as http2 } from "node:http2";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [bin, modules, proto] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { createFileRegistry, fromBinary, fromJson, toBinary, toJson } = require("@bufbuild/protobuf");
const { FileDescriptorSetSchema } = require("@bufbuild/protobuf/wkt");
const { Code, ConnectError, createClient } = require("@connectrpc/connect");
const { createConnectTransport } = require("@connectrpc/connect-web");
const scratch = mkdtempSync(join(tmpdir(), "luthier-connect-"));

const made = join(scratch, "api.binpb");
const files = readdirSync(join(proto, "luthier/v1")).map((file) => `luthier/v1/${file}`);
assert.equal(spawnSync("protoc", ["-I", proto, "--include_imports", `--descriptor_set_out=${made}`, ...files], { stdio: "inherit" }).status, 0);
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(made)));
const services = [...registry].filter((type) => type.kind === "service");
const methods = services.flatMap((service) => service.methods.map((method) => ({ service, method, name: `${service.name}/${method.name}` })));
assert.ok(methods.length >= 43, `the descriptors have ${methods.length} methods`);
const find = (name) => methods.find((m) => m.name === name) ?? assert.fail(`there is no method ${name}`);

const server = spawn(join(bin, "luthierd"), ["--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data-dir", join(scratch, "data")], { stdio: ["ignore", "ignore", "pipe"] });
const [url, grpc] = await new Promise((resolve, reject) => {
  let log = "";
  server.stderr.on("data", (text) => {
    log += text;
    const page = /url=(http:\/\/127\.0\.0\.1:\d+)/.exec(log), own = /serving on (127\.0\.0\.1:\d+)|listen=(127\.0\.0\.1:\d+)/.exec(log);
    if (page !== null && own !== null) resolve([page[1], own[1] ?? own[2]]);
  });
  server.on("exit", (code) => reject(new Error(`luthierd ended with ${code}: ${log}`)));
});
const token = readFileSync(join(scratch, "data/admin.token"), "utf8").trim();

// Ways to call a method. Each takes a request in JSON and answers in JSON, a stream as the list of its messages, or throws a
// ConnectError.
const authorize = (next) => (request) => {
  request.header.set("Authorization", `Bearer ${token}`);
  return next(request);
};
function byConnect(useBinaryFormat) {
  const transport = createConnectTransport({ baseUrl: url, useBinaryFormat, interceptors: [authorize], jsonOptions: { registry } });
  return async (name, body) => {
    const { service, method } = find(name);
    const client = createClient(service, transport), request = fromJson(method.input, body, { registry });
    if (method.methodKind === "unary") return toJson(method.output, await client[method.localName](request), { registry });
    const messages = [];
    for await (const message of client[method.localName](request)) messages.push(toJson(method.output, message, { registry }));
    return messages;
  };
}
function curl(...more) {
  const run = spawnSync("curl", ["-sS", "-H", `Authorization: Bearer ${token}`, ...more], { input: more.at(-1) === "@-" ? curl.input : undefined, maxBuffer: 1 << 28 });
  assert.equal(run.status, 0, String(run.stderr));
  return run.stdout;
}
async function byCurl(name, body) {
  const { service, method } = find(name), address = `${url}/${service.typeName}/${method.name}`, text = JSON.stringify(body);
  if (method.methodKind === "unary") {
    const answer = JSON.parse(curl("-H", "Content-Type: application/json", "-d", text, address));
    if (typeof answer.code === "string" && typeof answer.message === "string") throw new ConnectError(answer.message, Code.Unknown);
    return answer;
  }
  curl.input = Buffer.concat([Buffer.from([0, 0, 0, text.length >> 8, text.length & 255]), Buffer.from(text)]);
  const stream = curl("-H", "Content-Type: application/connect+json", address, "--data-binary", "@-"), messages = [];
  for (let at = 0; at < stream.length; ) {
    const size = stream.readUInt32BE(at + 1), message = JSON.parse(stream.subarray(at + 5, at + 5 + size));
    if (stream[at] === 0) messages.push(message);
    else assert.equal(message.error, undefined, JSON.stringify(message));
    at += 5 + size;
  }
  return messages;
}

// A life in which every method is called once at least, and succeeds. Names end with the way's, so that ways do not meet.
async function live(way, call) {
  const called = new Set();
  const ask = async (name, body) => {
    called.add(name);
    const answer = await call(name, body);
    return answer;
  };
  const id = `life-${way}`, study = `projects/default/studies/${id}`, request = (n) => `${way}-${n}`;
  const loss = (value) => ({ step: "1", metrics: { loss: value } });
  const text = "space:\n  - {name: x, float: {min: 0, max: 1}}\nmetric: {name: loss, goal: MINIMIZE}\nalgorithm: {bo: {}}\nbudget: {max_trials: 50}\n";
  assert.equal((await ask("WorkerService/GetServerInfo", {})).serving, true);
  const { spec } = await ask("StudyService/CheckStudyFile", { text });
  assert.equal((await ask("StudyService/CreateStudy", { studyId: id, spec })).name, study);
  assert.equal((await ask("StudyService/GetStudy", { name: study })).state, "ACTIVE");
  assert.ok((await ask("StudyService/ListStudies", {})).studies.some((s) => s.name === study));
  assert.equal((await ask("StudyService/UpdateStudy", { name: study, spec: { budget: { maxTrials: "60" } }, updateMask: "budget.maxTrials", requestId: request("update") })).spec.budget.maxTrials, "60");
  const trials = Array.from({ length: 24 }, (_, i) => ({ parameters: { x: i / 24 }, state: "COMPLETE", finalMeasurement: loss((i / 24 - 0.3) ** 2) }));
  assert.equal((await ask("StudyService/ImportTrials", { parent: study, trials, requestId: request("import") })).numbers.length, 24);
  assert.equal((await ask("StudyService/GetImportance", { name: study })).trials, "24");
  const [predicted] = (await ask("StudyService/Predict", { name: study, settings: [{ x: 0.3 }] })).predictions;
  assert.ok(Math.abs(predicted.mean ?? 0) < 0.1 && predicted.sd > 0, JSON.stringify(predicted));
  const table = await ask("StudyService/GetTrialTable", { name: study, columns: ["number", "metrics.loss"] });
  assert.equal(Buffer.from(table.columns[1].numbers, "base64").readDoubleLE(8), (1 / 24 - 0.3) ** 2);
  await ask("StudyService/EnqueueTrials", { parent: study, trials: [{ parameters: { x: 0.5 } }], requestId: request("enqueue") });
  const leases = [];
  for (let i = 0; i < 5; ++i) leases.push(...(await ask("WorkerService/Suggest", { study, worker: `worker-${way}`, count: 1, requestId: request(`ask-${i}`) })).leases);
  const [completed, failed, released, stopped, cancelled] = leases.map(({ trial, token: lease }) => ({ trial: trial.name, token: lease }));
  await ask("WorkerService/Report", { ...completed, measurements: [loss(2)] });
  assert.equal((await ask("WorkerService/Complete", { ...completed, measurement: { step: "2", metrics: { loss: 0.04 } } })).state, "COMPLETE");
  assert.equal((await ask("WorkerService/Fail", { ...failed, failure: { kind: "CONFIG", reason: "DIVERGED", message: "no" } })).state, "FAILED");
  assert.equal((await ask("WorkerService/Release", released)).state, "PENDING");
  assert.equal((await ask("StudyService/StopTrial", { name: stopped.trial })).stopRequested, true);
  assert.deepEqual((await ask("WorkerService/Heartbeat", { worker: `worker-${way}`, tokens: [stopped.token] })).directives, ["FINISH"]);
  assert.equal((await ask("StudyService/CancelTrial", { name: cancelled.trial })).state, "CANCELLED");
  assert.equal((await ask("StudyService/GetTrial", { name: completed.trial, withMeasurements: true })).measurements[0].step, "1");
  assert.equal((await ask("StudyService/ListTrials", { parent: study, states: ["FAILED"] })).trials.length, 1);
  assert.ok((await ask("StudyService/ExplainTrial", { name: completed.trial })).sentences.length > 0);
  assert.equal((await ask("StudyService/SetAttributes", { name: completed.trial, attributes: { note: "ü" } })).attributes.note, "ü");
  assert.equal((await ask("StudyService/RetryTrials", { parent: study, allFailed: true, requestId: request("retry") })).trials.length, 1);
  assert.ok(Number((await ask("StudyService/DeleteTrial", { name: `${study}/trials/1` })).seq) > 0);
  assert.ok((await ask("StudyService/ListEvents", { name: study, pageSize: 10 })).events.length === 10);
  const { workers } = await ask("StudyService/ListWorkers", {});
  assert.ok(workers.some((w) => w.name.endsWith(`worker-${way}`)), JSON.stringify(workers));

  const open = `projects/default/studies/${id}-open`;
  await ask("StudyService/CreateStudy", { studyId: `${id}-open`, spec: { openSpace: true, metric: { name: "loss", goal: "MINIMIZE" } } });
  const [lease] = (await ask("WorkerService/Suggest", { study: open, worker: `worker-${way}`, count: 1, requestId: request("open") })).leases;
  const declared = await ask("WorkerService/DeclareParameters", { trial: lease.trial.name, token: lease.token, parameters: [{ name: "y", float: { min: 2, max: 3 } }] });
  assert.ok(declared.parameters.y >= 2 && declared.parameters.y <= 3);

  for (const [verb, state] of [["Pause", "PAUSED"], ["Resume", "ACTIVE"], ["Stop", "STOPPED"], ["Cancel", "CANCELLED"]]) {
    assert.equal((await ask(`StudyService/${verb}Study`, { name: study, requestId: request(verb) })).state, state);
  }
  const events = await ask("StudyService/WatchStudy", { name: study, untilFinished: true });
  assert.equal(events[0].type, "STUDY_CREATED");
  assert.ok(events.length > 50 && events.some((e) => e.type === "STUDY_CANCELLED"), `${events.length} events`);
  assert.ok(Number((await ask("StudyService/DeleteStudy", { name: study, requestId: request("delete") })).seq) > 0);
  assert.equal((await ask("StudyService/UndeleteStudy", { name: study, requestId: request("undelete") })).name, study);
  assert.ok(Number((await ask("StudyService/DeleteStudy", { name: study, requestId: request("delete-again") })).seq) > 0);

  assert.equal((await ask("AdminService/CreateProject", { id: `project-${way}`, requestId: request("project") })).id, `project-${way}`);
  assert.equal((await ask("AdminService/UpdateProject", { id: `project-${way}`, quotas: { studies: "5" }, requestId: request("quotas") })).quotas.studies, "5");
  assert.ok((await ask("AdminService/ListProjects", {})).projects.length >= 2);
  const guest = await ask("AdminService/CreateToken", { name: `guest-${way}`, project: `project-${way}`, roles: ["VIEWER"], requestId: request("token") });
  assert.match(guest.secret, /^lut_/);
  assert.ok((await ask("AdminService/ListTokens", {})).tokens.some((t) => t.id === guest.token.id));
  const rotated = await ask("AdminService/RotateToken", { id: guest.token.id, requestId: request("rotate") });
  assert.ok((await ask("AdminService/RevokeToken", { id: rotated.token.id })).revokeTime);
  assert.ok((await ask("AdminService/ListAudit", { pageSize: 5 })).entries.length === 5);
  assert.match((await ask("AdminService/OpenPage", {})).url, /^http/);
  return called;
}

const problems = [];
async function test(what, run) {
  try {
    await run();
    console.log(`ok      ${what}`);
  } catch (error) {
    problems.push(what);
    console.log(`FAILED  ${what}\n${error.stack}`);
  }
}

const ways = [["json", byConnect(false)], ["binary", byConnect(true)], ["curl", byCurl]];
for (const [way, call] of ways) {
  await test(`every method succeeds by ${way}`, async () => {
    const called = await live(way, call);
    assert.deepEqual(methods.map((m) => m.name).filter((name) => !called.has(name)), [], "methods that this test does not call: add them to live()");
  });
}

// What gRPC says to a request: its status, message and details.
const session = http2(`http://${grpc}`);
async function byGrpc({ service, method }, request) {
  const bytes = Buffer.from(toBinary(method.input, fromJson(method.input, request, { registry })));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  const stream = session.request({ ":method": "POST", ":path": `/${service.typeName}/${method.name}`, "content-type": "application/grpc", te: "trailers", authorization: `Bearer ${token}` });
  const said = {};
  stream.on("response", (headers) => Object.assign(said, headers));
  stream.on("trailers", (trailers) => Object.assign(said, trailers));
  stream.on("data", () => {});
  stream.end(Buffer.concat([head, bytes]));
  await new Promise((resolve, reject) => stream.on("close", resolve).on("error", reject));
  return { code: Number(said["grpc-status"]), message: decodeURIComponent(said["grpc-message"] ?? ""), details: Buffer.from(String(said["grpc-status-details-bin"] ?? ""), "base64") };
}

await test("errors are those of gRPC, with the same details", async () => {
  const detail = registry.getMessage("luthier.v1.ErrorDetail");
  const nobody = { name: "projects/default/studies/nobody", parent: "projects/nowhere", study: "projects/default/studies/nobody", trial: "projects/default/studies/nobody/trials/1", id: "No Body" };
  let compared = 0;
  for (const one of methods) {
    const fields = Object.fromEntries(Object.entries(nobody).filter(([field]) => one.method.input.fields.some((f) => f.localName === field)));
    for (const request of [{}, fields]) {
      const expected = await byGrpc(one, request);
      for (const [way, call] of ways.slice(0, 2)) {
        const error = await call(one.name, request).then(() => null, (failure) => failure);
        const what = `${one.name} ${JSON.stringify(request)} by ${way}`;
        if (expected.code === 0) {
          assert.equal(error, null, `${what}: ${error}`);
          continue;
        }
        assert.ok(error instanceof ConnectError, `${what}: ${error}`);
        assert.equal(error.code, expected.code, what);
        assert.equal(error.rawMessage, expected.message, what);
        assert.deepEqual(error.details.map((d) => Buffer.from(d.value)), expected.details.length === 0 ? [] : [expected.details], what);
        assert.ok(error.findDetails(detail).every((d) => d.reason !== ""), what);
        ++compared;
      }
    }
  }
  assert.ok(compared > methods.length, `${compared} errors`);
});

session.close();
server.removeAllListeners("exit");
server.kill("SIGTERM");
await new Promise((resolve) => server.on("exit", resolve));
rmSync(scratch, { recursive: true, force: true });
console.log(problems.length === 0 ? `${methods.length} methods are called in ${ways.length} ways` : `${problems.length} failed`);
process.exit(problems.length === 0 ? 0 : 1);
