"""What members do when the API of Kubernetes fails in its own ways, and is changed by somebody."""

from __future__ import annotations

import json
import time

import pytest
from membership.kubernetes_api import NAMESPACE, Trouble
from membership.members import LEASE_S, Members
from membership.recorded_core import RecordedCore, wait_until
from membership.stores import KubernetesStore
from membership.test_leased_join import ACTIVE, BY_LEASE, BY_REMOVAL, GONE

from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.membership.kubernetes_keys import KubernetesKeys
from gd2fs.membership.kubernetes_leases import KubernetesLeases
from gd2fs.membership.kubernetes_link import KubernetesLink, KubernetesSettings
from gd2fs.membership.kubernetes_names import lease_name, map_name
from gd2fs.membership.state import NODES, LeftBy, Member

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path):
    """One that a test may break."""
    with KubernetesStore(tmp_path) as store:
        yield store


@pytest.fixture
def members(store):
    group = Members(store)
    yield group
    store.api.troubles.clear()
    group.end()


@pytest.fixture
def api(store):
    return store.api


def leases_of(members: Members) -> KubernetesLeases:
    link = KubernetesLink(members.store.settings(), 10.0)
    return KubernetesLeases(link, members.cluster, LEASE_S)


def goes_on(core: RecordedCore) -> None:
    """Keep-alives count, more than one from now on."""
    before = core.until_ms
    wait_until(lambda: core.until_ms > before + LEASE_S * 500, "keep-alives")


# ---- the API fails -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble("/leases", ("PUT",), status=500),
        Trouble("/leases", ("PUT",)),
        Trouble("/configmaps", ("GET",), status=503),
    ],
    ids=["writes fail", "writes hang", "the map cannot be read"],
)
def test_a_member_whose_keep_alives_fail_is_fenced_and_returns_without_a_gap(api, members, trouble):
    provider, core = members.start("a")
    told = len(core.maps)
    api.troubles.append(trouble)

    wait_until(lambda: not core.is_leased, "the end of the lease")
    said = "fenced: no keep-alive counts; the API of Kubernetes at"
    wait_until(lambda: provider.why_not_ready().startswith(said), "the reason")
    api.troubles.clear()
    wait_until(lambda: core.is_leased, "another keep-alive")

    assert len(core.maps) == told


@pytest.mark.parametrize("is_away", [True, False], ids=["the API is away", "it takes no writes"])
def test_where_nobody_can_write_nobody_is_taken_out(api, members, is_away):
    cores = [members.start(name)[1] for name in "ab"]
    for core in cores:
        core.wait_for(lambda told: len(told.states) == 2)
    epoch = max(core.last.epoch for core in cores)
    if is_away:
        api.stop()
    else:
        api.troubles.append(Trouble("/leases", ("PUT",), status=429))
    wait_until(lambda: not any(core.is_leased for core in cores), "the end of all leases")
    end = time.monotonic() + 0.6 * LEASE_S  # since its last change each is silent for a lease now
    wait_until(lambda: time.monotonic() > end, "the time in which somebody would be silent")

    api.troubles.clear()
    if is_away:
        api.start()
    for core in cores:
        goes_on(core)

    assert {core.last.epoch for core in cores} == {epoch}


def test_an_answer_that_got_lost_costs_nothing(api, members):
    _, core = members.start("a")
    told = len(core.maps)
    lost = Trouble("/leases", ("PUT",), status=500, is_done=True)
    api.troubles.append(lost)
    asked = len(api.asked)
    wait_until(lambda: sum("PUT" in each for each in api.asked[asked:]) > 3, "some writes")

    api.troubles.clear()
    goes_on(core)

    assert len(core.maps) == told


def test_a_slow_api_is_no_event(api, members):
    _, core = members.start("a")
    told = len(core.maps)
    api.troubles.append(Trouble(slow_s=0.15))

    goes_on(core)

    assert len(core.maps) == told


def test_maps_are_told_at_once_by_a_watch(api, members):
    _, core = members.start("a", lease_s=60)
    wait_until(lambda: api.watches == 1, "a watch")
    start_s = time.monotonic()

    members.start("b")

    core.wait_for(lambda told: told.states.get("b") == (ACTIVE, 0))
    assert time.monotonic() - start_s < 15  # the next keep-alive is after 20


def test_a_watch_that_is_cut_goes_on_where_it_was(api, members):
    _, core = members.start("a", lease_s=60)
    for name in "bcd":
        wait_until(lambda: api.watches >= 1, "a watch")
        api.cut_watches()
        members.start(name)
        core.wait_for(lambda told, name=name: told.states.get(name) == (ACTIVE, 0))

    assert not any(told.is_gap for told in core.maps)
    epochs = [told.epoch for told in core.maps]
    assert epochs == list(range(epochs[0], epochs[0] + len(epochs)))


def test_a_watch_that_hangs_does_not_keep_maps_from_coming(api, members):
    api.troubles.append(Trouble("watch=true"))
    _, core = members.start("a")

    members.start("b")

    core.wait_for(lambda told: told.states.get("b") == (ACTIVE, 0))


def test_versions_that_the_api_forgot_are_read_anew_without_a_gap(api, members):
    _, core = members.start("a", lease_s=60)
    members.start("b")
    wait_until(lambda: api.watches >= 2, "watches")
    api.objects.version += 1000
    api.objects.forget()
    api.cut_watches()

    members.start("c")

    core.wait_for(lambda told: told.states.get("c") == (ACTIVE, 0))
    assert not any(told.is_gap for told in core.maps)


# ---- who may ask it ------------------------------------------------------------------------------


def test_a_token_that_is_replaced_is_read_again(api, members):
    _, core = members.start("a")
    told = len(core.maps)

    api.rotate("second-token")
    goes_on(core)

    assert len(core.maps) == told


def test_a_wrong_token_is_refused_in_a_line(api, members):
    (api.account / "token").write_text("wrong")

    with pytest.raises(InvalidRequest, match="refuses: Unauthorized") as refused:
        members.provider("a").first_map()

    assert "token" in refused.value.hint and "wrong" not in str(refused.value)


def test_an_account_without_rights_is_told_which(api, members):
    api.troubles.append(Trouble("/configmaps", status=403))

    with pytest.raises(InvalidRequest, match="refuses: ") as refused:
        members.provider("a").first_map()

    assert "Role" in refused.value.hint


def test_a_namespace_that_is_not_there_is_said(api):
    link = KubernetesLink(KubernetesSettings("nowhere", api.url, str(api.account)), 2.0)
    keys = KubernetesKeys(link, "c")

    with pytest.raises(InvalidRequest, match=r"could not be written") as refused:
        keys.put_member(Member("a", ("h:1",)), 1, expected_revision=0)

    assert "namespace nowhere" in refused.value.hint


def test_an_api_that_is_not_there_is_said_in_a_line(api):
    settings = KubernetesSettings(NAMESPACE, "http://127.0.0.1:1", str(api.account))

    with pytest.raises(Unavailable, match=r"does not answer: Connection refused$"):
        KubernetesKeys(KubernetesLink(settings, 1.0), "c").snapshot()


def test_no_pod_no_token(tmp_path):
    settings = KubernetesSettings(NAMESPACE, "http://127.0.0.1:1", str(tmp_path / "none"))

    with pytest.raises(InvalidRequest, match="No such file") as refused:
        KubernetesKeys(KubernetesLink(settings, 1.0), "c").snapshot()

    assert "service account" in refused.value.hint


# ---- leases --------------------------------------------------------------------------------------


def test_the_objects_say_what_people_want_to_know(api, members):
    _, core = members.start("a")

    lease = api.objects.stored["leases", NAMESPACE, lease_name(members.cluster, "a")]
    spec, notes = lease["spec"], lease["metadata"]["annotations"]
    assert spec["holderIdentity"] == str(core.last.nodes[0][3])
    assert spec["leaseDurationSeconds"] == LEASE_S and spec["leaseTransitions"] == 1
    assert notes == {"gd2fs/node": "a", "gd2fs/cluster": members.cluster}
    made = api.objects.stored["configmaps", NAMESPACE, map_name(members.cluster)]
    assert made["metadata"]["annotations"]["gd2fs/epoch"] == str(core.last.epoch)
    assert leases_of(members).read("a").left_s > 0


def test_who_leaves_takes_its_lease_along(api, members):
    members.start("a")
    leaving, _ = members.start("b")

    leaving.leave()

    names = [key[2] for key in api.objects.stored if key[0] == "leases"]
    assert names == [lease_name(members.cluster, "a")]


def test_a_lease_that_speaks_cannot_be_taken(members):
    members.start("a", lease_s=60)
    leases = leases_of(members)
    seen = leases.read("a")
    assert leases.renew(seen)  # as its holder would, just before

    assert leases.fence(seen) is None
    assert leases.read("a").holder == seen.holder


def test_a_member_whose_lease_was_ended_joins_again(members):
    _, stays = members.start("a")
    _, core = members.start("b")
    leases = leases_of(members)

    wait_until(lambda: leases.fence(leases.read("b")) is not None, "the end of its lease")

    left = stays.wait_for(lambda told: told.states.get("b") == (GONE, BY_LEASE))
    stays.wait_for(lambda told: told.epoch > left.epoch and told.states.get("b") == (ACTIVE, 0))
    wait_until(lambda: core.is_leased, "another lease")
    assert leases.read("b").term == 2


def test_a_lease_object_that_an_operator_deleted_fences_nobody(api, members):
    _, stays = members.start("a")
    _, core = members.start("b")

    api.objects.delete(("leases", NAMESPACE, lease_name(members.cluster, "b")), {})

    wait_until(lambda: leases_of(members).read("b") is not None, "another lease object")
    left = core.wait_for(lambda told: told.states.get("b", (0, 0))[0] == GONE)
    assert left.states["b"][1] in (BY_LEASE, BY_REMOVAL)
    stays.wait_for(lambda told: told.epoch > left.epoch and told.states.get("b") == (ACTIVE, 0))
    goes_on(core)


def test_all_members_may_die_at_once(members):
    crashed = [members.start(name)[0] for name in "ab"]
    for each in crashed:
        members.store.crash(each)

    _, core = members.start("c")

    for name in "ab":
        core.wait_for(lambda told, name=name: told.states.get(name) == (GONE, BY_LEASE))


def test_a_place_under_an_older_lease_does_not_count(members):
    _, core = members.start("a")
    keys, leases = members.keys(), leases_of(members)
    seen = leases.read("a")
    boot = seen.holder

    keys.remove("a", lease_max=seen.term, left_by=LeftBy.REMOVAL)
    keys.put_member(Member("a", ("127.0.0.1:1",), boot=boot), seen.term - 1, expected_revision=0)

    back = core.wait_for(lambda told: told.states.get("a") == (GONE, BY_LEASE))
    core.wait_for(lambda told: told.epoch > back.epoch and told.states.get("a") == (ACTIVE, 0))
    goes_on(core)


# ---- the map -------------------------------------------------------------------------------------


def test_writers_of_the_map_wait_for_each_other(members):
    from concurrent.futures import ThreadPoolExecutor

    members.start("a")
    before = members.keys().read()

    def put(number: int) -> int:
        member = Member(f"n{number}", ("127.0.0.1:9",), boot=1)
        while True:
            try:
                return members.keys().put_member(member, 1, expected_revision=0)
            except Unavailable as error:  # as a node does, in its next turn
                assert "others change" in str(error)

    with ThreadPoolExecutor(4) as writers:
        epochs = list(writers.map(put, range(12)))

    after = members.keys().read()
    # One each; on a slow machine others are `a`'s, which finds that nobody keeps these alive.
    assert len(set(epochs)) == 12
    assert before.epoch < min(epochs) and max(epochs) <= after.epoch
    assert {NODES + f"n{number}" for number in range(12)} <= set(after.puts)


def test_a_map_that_was_changed_by_hand_fences_all_until_it_is_mended(api, members):
    provider, core = members.start("a")
    told = len(core.maps)
    key = ("configmaps", NAMESPACE, map_name(members.cluster))
    good = json.loads(json.dumps(api.objects.stored[key]))
    bad = json.loads(json.dumps(good))
    del bad["metadata"]["annotations"]["gd2fs/epoch"]
    del bad["metadata"]["resourceVersion"]
    api.objects.replace(key, bad)

    wait_until(lambda: not core.is_leased, "the end of the lease")
    assert "no annotation" in provider.why_not_ready()
    del good["metadata"]["resourceVersion"]
    api.objects.replace(key, good)
    goes_on(core)

    assert len(core.maps) == told


def test_a_map_that_was_removed_is_not_made_anew_by_members(api, members):
    provider, core = members.start("a")

    api.objects.delete(("configmaps", NAMESPACE, map_name(members.cluster)), {})

    assert provider.is_over.wait(20) and "was removed, or is an old one" in provider.fault
    assert core.until_ms == 0
    assert members.keys().head() is None


def test_a_cluster_that_is_founded_anew_has_later_epochs(api, members):
    first, core = members.start("a")
    first.leave()
    api.objects.delete(("configmaps", NAMESPACE, map_name(members.cluster)), {})
    wait_until(lambda: time.time() > core.last.epoch + 1, "the next second")

    _, again = members.start("a")

    assert again.last.epoch > core.last.epoch
