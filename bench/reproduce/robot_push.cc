#include "bench/reproduce/robot_push.h"

#include <box2d/box2d.h>

#include <cmath>
#include <numbers>

namespace luthier::reproduce {
namespace {

constexpr float kStep = 0.01f;
constexpr int kIterations = 10;
constexpr int kFreeSteps = 100;
constexpr float kGain = 30.0f;  // Of the controller: force per mass and missing velocity.

b2Vec2 Vector(const std::array<double, 2>& v) {
  return b2Vec2(static_cast<float>(v[0]), static_cast<float>(v[1]));
}

double Energy(const b2Body& body) {
  return 0.5 * static_cast<double>(body.GetMass() * body.GetLinearVelocity().LengthSquared() +
                                   body.GetInertia() * body.GetAngularVelocity() * body.GetAngularVelocity());
}

b2Body* AddBody(b2World* world, b2Body* ground, const b2Vec2& position, float angle, const b2Shape& shape,
                float density, float friction, float ground_force) {
  b2BodyDef body_def;
  body_def.type = b2_dynamicBody;
  body_def.position = position;
  body_def.angle = angle;
  b2Body* body = world->CreateBody(&body_def);
  b2FixtureDef fixture;
  fixture.shape = &shape;
  fixture.density = density;
  fixture.friction = friction;
  body->CreateFixture(&fixture);
  b2FrictionJointDef joint;
  joint.bodyA = ground;
  joint.bodyB = body;
  joint.maxForce = ground_force;
  joint.maxTorque = 2.0f;
  world->CreateJoint(&joint);
  return body;
}

std::array<double, 2> Unit(double x, double y) {
  const double norm = std::hypot(x, y);
  if (norm == 0.0) return {1.0, 0.0};
  return {x / norm, y / norm};
}

int StepsOf(double duration) {
  return static_cast<int>(std::floor(10.0 * duration));
}

}  // namespace

PushOutcome Simulate(const Push& push) {
  b2World world(b2Vec2(0.0f, 0.0f));
  b2BodyDef ground_def;
  b2Body* ground = world.CreateBody(&ground_def);
  b2CircleShape circle;
  circle.m_radius = 1.0f;
  b2PolygonShape bar;
  bar.SetAsBox(0.3f, 1.0f);
  b2Body* disc = AddBody(&world, ground, b2Vec2(0.0f, 0.0f), 0.0f, circle, 0.05f, 0.01f, 5.0f);
  b2Body* hand = AddBody(&world, ground, Vector(push.hand), static_cast<float>(push.angle), bar, 0.1f, 0.1f, 2.0f);
  const b2Vec2 wanted = Vector(push.velocity);
  for (int t = 0; t < push.steps; ++t) {
    hand->ApplyTorque(-kGain * hand->GetMass() * hand->GetAngularVelocity(), true);
    hand->ApplyForceToCenter(kGain * hand->GetMass() * (wanted - hand->GetLinearVelocity()), true);
    world.Step(kStep, kIterations, kIterations);
  }
  PushOutcome outcome;
  double energy = outcome.energy_released = Energy(*disc) + Energy(*hand);
  for (int t = 0; t < kFreeSteps; ++t) {
    world.Step(kStep, kIterations, kIterations);
    const double now = Energy(*disc) + Energy(*hand);
    outcome.energy_grew = outcome.energy_grew || now > energy * (1.0 + 1e-5) + 1e-9;
    energy = now;
  }
  outcome.energy_left = energy;
  outcome.disc = {disc->GetPosition().x, disc->GetPosition().y};
  outcome.hand = {hand->GetPosition().x, hand->GetPosition().y};
  return outcome;
}

Push Push3(double x, double y, double duration) {
  const std::array<double, 2> way = Unit(-x, -y);
  // The source's angle, which has half a turn to spare: a bar has no front.
  const double angle = x == 0.0 ? std::copysign(std::numbers::pi / 2.0, y) : std::atan(y / x);
  return {{x, y}, x == 0.0 && y == 0.0 ? 0.0 : angle, {5.0 * way[0], 5.0 * way[1]}, StepsOf(duration)};
}

Push Push4(double x, double y, double duration, double angle) {
  const std::array<double, 2> way = Unit(-x, -y);
  return {{x, y}, angle, {10.0 * way[0], 10.0 * way[1]}, StepsOf(duration)};
}

}  // namespace luthier::reproduce
