"""Changes of tokens and projects whose answer got lost: sent again they are made once, and a secret is told that works."""

from __future__ import annotations

import os
import random
import time
import uuid
from typing import Any

import attack
import grpc
from google.protobuf import duration_pb2

METHOD = "AdminService/CreateToken"
ROUNDS = int(os.environ.get("LUTHIER_ATTACK_ROUNDS", "5"))


def create(caller: attack.Caller, name: str, request_id: str, role: str = "VIEWER") -> Any:
    """The answer to CreateToken."""
    from luthier.v1 import admin_service_pb2 as pb

    return caller.call(METHOD, name=name, roles=[pb.Role.Value(role)], request_id=request_id)


def works(coordinator: attack.Coordinator, secret: str) -> bool:
    """Whether calls are admitted by it."""
    caller = coordinator.caller(secret)
    try:
        caller.call("WorkerService/GetServerInfo")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAUTHENTICATED
        return False
    finally:
        caller.close()
    return True


def named(caller: attack.Caller, name: str) -> list[Any]:
    """Tokens of that name."""
    return [token for token in caller.call("AdminService/ListTokens").tokens if token.name == name]


def test_a_token_is_made_once(coordinator: attack.Coordinator) -> None:
    from luthier.v1 import admin_service_pb2 as pb

    admin = coordinator.caller(coordinator.admin_token)
    request = str(uuid.uuid4())
    first, again = create(admin, "a", request), create(admin, "a", request)
    assert again.secret == first.secret and again.token.id == first.token.id
    assert works(coordinator, first.secret)
    assert create(admin, "a", request).secret == first.secret  # For some minutes, in use or not.
    # Other content under the id, and the same under the id of another caller, are other requests.
    error = admin.error(METHOD, name="b", roles=[pb.VIEWER], request_id=request)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "request_id" in error.details()
    other = coordinator.caller(create(admin, "root2", str(uuid.uuid4()), "ADMIN").secret)
    error = other.error(METHOD, name="a", roles=[pb.VIEWER], request_id=request)
    assert error.code() == grpc.StatusCode.ALREADY_EXISTS and first.token.id in error.details()
    assert len(named(admin, "a")) == 1
    # After a restart nothing is left of a secret but its hash; this one is in use.
    coordinator.kill()
    coordinator.start()
    admin = coordinator.caller(coordinator.admin_token)
    error = admin.error(METHOD, name="a", roles=[pb.VIEWER], request_id=request)
    assert error.code() == grpc.StatusCode.ALREADY_EXISTS
    assert f"luthier admin token rotate {first.token.id}" in error.details()
    assert works(coordinator, first.secret)


def test_a_lost_secret_gives_way_to_one_that_works(coordinator: attack.Coordinator) -> None:
    admin = coordinator.caller(coordinator.admin_token)
    request, rotation = str(uuid.uuid4()), str(uuid.uuid4())
    lost = create(admin, "a", request)
    coordinator.kill()
    coordinator.start()
    admin = coordinator.caller(coordinator.admin_token)
    told = create(admin, "a", request)
    assert told.token.id == lost.token.id and told.secret != lost.secret
    assert works(coordinator, told.secret) and not works(coordinator, lost.secret)
    # The same of a rotation; the secret before stays for its overlap, also when the answer is asked for again.
    overlap = duration_pb2.Duration(seconds=3600)
    lost = admin.call("AdminService/RotateToken", id=told.token.id, overlap=overlap, request_id=rotation)
    coordinator.kill()
    coordinator.start()
    admin = coordinator.caller(coordinator.admin_token)
    again = admin.call("AdminService/RotateToken", id=told.token.id, overlap=overlap, request_id=rotation)
    assert again.secret not in (lost.secret, told.secret)
    assert works(coordinator, again.secret) and works(coordinator, told.secret) and not works(coordinator, lost.secret)
    # Whoever was revoked meanwhile does not come back.
    admin.call("AdminService/RevokeToken", id=told.token.id)
    error = admin.error("AdminService/RotateToken", id=told.token.id, overlap=overlap, request_id=rotation)
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    secrets = [again.secret, told.secret, lost.secret]
    coordinator.kill()
    for file in coordinator.data.iterdir():
        if file.is_file() and file.name != "admin.token":
            data = file.read_bytes()
            assert not any(secret[-43:].encode() in data for secret in secrets), file


def test_killed_at_any_time_a_token_is_made_once(coordinator: attack.Coordinator, rng: random.Random) -> None:
    from luthier.v1 import admin_service_pb2 as pb

    for i in range(ROUNDS):
        request, name = str(uuid.uuid4()), f"t{i}"
        admin = coordinator.caller(coordinator.admin_token)
        lost = admin.future(METHOD, name=name, roles=[pb.VIEWER], request_id=request)
        time.sleep(rng.uniform(0, 0.02))
        coordinator.kill()
        coordinator.start()
        admin = coordinator.caller(coordinator.admin_token)
        told = create(admin, name, request)
        assert works(coordinator, told.secret)
        assert len(named(admin, name)) == 1
        if lost.code() == grpc.StatusCode.OK:
            assert lost.result().token.id == told.token.id
        admin.close()


def test_projects_are_made_and_changed_once(coordinator: attack.Coordinator) -> None:
    admin = coordinator.caller(coordinator.admin_token)
    make, change, change_again = (str(uuid.uuid4()) for _ in range(3))
    for _ in range(2):
        assert admin.call("AdminService/CreateProject", id="p", quotas={"studies": 1}, request_id=make).id == "p"
    assert admin.error("AdminService/CreateProject", id="p").code() == grpc.StatusCode.ALREADY_EXISTS
    admin.call("AdminService/UpdateProject", id="p", quotas={"studies": 2}, request_id=change)
    admin.call("AdminService/UpdateProject", id="p", quotas={"studies": 3}, request_id=change_again)
    # The first change, late and again, undoes nothing.
    assert admin.call("AdminService/UpdateProject", id="p", quotas={"studies": 2}, request_id=change).quotas.studies == 3
    assert admin.call("AdminService/CreateProject", id="p", quotas={"studies": 1}, request_id=make).quotas.studies == 3
    error = admin.error("AdminService/UpdateProject", id="p", quotas={"studies": 9}, request_id=change)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_what_was_answered_is_the_same_after_a_restart(coordinator: attack.Coordinator) -> None:
    from luthier.v1 import admin_service_pb2 as pb

    admin = coordinator.caller(coordinator.admin_token)
    make = str(uuid.uuid4())
    project = admin.call("AdminService/CreateProject", id="q", request_id=make)
    lifetime = duration_pb2.Duration(seconds=3600, nanos=1)
    made = [admin.call(METHOD, name=f"t{i}", roles=[pb.VIEWER], lifetime=lifetime).token for i in range(3)]
    rotated = admin.call("AdminService/RotateToken", id=made[0].id, lifetime=lifetime, overlap=duration_pb2.Duration(seconds=60, nanos=1)).token
    revoked = admin.call("AdminService/RevokeToken", id=made[1].id)
    study = admin.create_study("s", max_trials=1)
    coordinator.kill()
    coordinator.start()
    admin = coordinator.caller(coordinator.admin_token)
    assert admin.call("AdminService/CreateProject", id="q", request_id=make) == project
    tokens = {token.id: token for token in admin.call("AdminService/ListTokens").tokens}
    assert tokens[made[2].id] == made[2] and tokens[rotated.id] == rotated
    assert admin.call("AdminService/RevokeToken", id=made[1].id) == revoked
    assert admin.call("StudyService/GetStudy", name=study.name) == study
